"""Transposed convolutions in bfloat16 whose windows neither overlap nor leave gaps."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.narrow_convolve import NarrowConvolution
from fusionc.graph_kernel.blocked.kinds.transposed import TransposedStep
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions


@dataclass(frozen=True)
class NarrowTransposedStep(NarrowConvolution):
    """A transposed convolution with weights [in, out, rows, columns]. Each element of the window
    makes one pixel in each window of the result.
    """

    functions = StepFunctions(
        task="transposed_narrow",
        pack="pack_taps",
        packed_floats="narrow_weights",
        scratch="narrow_floats",
        size="transposed_size",
        divide="divide_narrow_taps",
        nanoseconds="narrow_taps_ns",
    )

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        rows, columns = of.window.kernel
        here, _ = super().seconds(of)
        return here / (rows * columns), TransposedStep().seconds_there(of)
