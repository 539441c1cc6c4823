"""Compute the scale and zero point (the grid) of a quantization at run time from the range of an
image.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import range_seconds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class ByteRangeStep(StepKind):
    """The range of each row, for each channel: the smallest number as the first pixel, and the
    largest number as the second one. Both numbers are limited so that the range includes 0.
    """

    functions = StepFunctions(task="byte_range", size="ranged", nanoseconds="range_ns")
    family = FAMILY

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return range_seconds(of)


@dataclass(frozen=True)
class ByteGridStep(StepKind):
    """The scale and the zero point for a range, as the two channels of one pixel. Steps read this
    pixel as `third`. Only the pixel of the first image is written.
    """

    functions = StepFunctions(
        task="byte_grid", size="averaged", divide="divide_grid", nanoseconds="average_ns"
    )
    family = FAMILY
