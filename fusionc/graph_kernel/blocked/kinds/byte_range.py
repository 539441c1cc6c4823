"""The grid of a quantization at run time: its scale and zero point, from the range of an image."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import range_seconds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class ByteRangeStep(StepKind):
    """The least and the largest number of each row, for each channel, as two pixels. Both ranges
    include 0.
    """

    functions = StepFunctions(task="byte_range", size="ranged", nanoseconds="range_ns")
    family = FAMILY

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return range_seconds(of)


@dataclass(frozen=True)
class ByteGridStep(StepKind):
    """The scale and the zero point for a range, as the two channels of one pixel. Steps read it as
    `third`; only the pixel of the first image is written.
    """

    functions = StepFunctions(
        task="byte_grid", size="averaged", divide="divide_grid", nanoseconds="average_ns"
    )
    family = FAMILY
