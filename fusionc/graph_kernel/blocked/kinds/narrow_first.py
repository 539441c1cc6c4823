"""Convolutions in bfloat16 of images with few channels. The images are read directly from the
tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.narrow_convolve import NarrowConvolution
from fusionc.graph_kernel.blocked.step_kind import StepFunctions


@dataclass(frozen=True)
class NarrowFirstStep(NarrowConvolution):
    """The image is float32 and planar (stored channel by channel, as in its tensor). Its windows
    become the rows of a bfloat16 matrix.
    """

    functions = StepFunctions(
        task="convolve_first",
        pack="pack_windows",
        packed_floats="window_weights",
        scratch="window_floats",
        size="windowed",
        divide="divide_windows",
        nanoseconds="narrow_ns",
    )
