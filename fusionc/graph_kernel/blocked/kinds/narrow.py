"""Conversion of images from float32 to bfloat16."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import COPIED
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind

_BYTES = 6  # bytes that are read and written for each number


@dataclass(frozen=True)
class NarrowStep(StepKind):
    """A bfloat16 image, rounded from a float32 image."""

    functions = StepFunctions(task="narrow")
    family = "narrow"
    is_of_widest_vectors = True
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return _BYTES * of.out.pixels * of.out.channels / COPIED, 0.0
