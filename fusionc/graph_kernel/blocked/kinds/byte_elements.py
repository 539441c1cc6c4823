"""Elementwise steps on bytes, and pools of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import byte_pass_seconds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class _ByteKind(StepKind):
    zero: int = 0  # the zero point of the result
    family = FAMILY
    keeps_channels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return byte_pass_seconds(of)


@dataclass(frozen=True)
class ByteAddStep(_ByteKind):
    """The sum of two images. The factors are the images' scales, divided by the scale of the
    sum.
    """

    factor: float = 0.0
    factor2: float = 0.0
    addend: float = 0.0
    least: int = 0  # the lower bound of results; `most` is the upper bound
    most: int = 255
    functions = StepFunctions(task="byte_add")
    keeps_pixels = True


@dataclass(frozen=True)
class ByteClipStep(_ByteKind):
    """An image whose bytes are limited to the range from `least` to `most`."""

    least: int = 0
    most: int = 255
    functions = StepFunctions(task="byte_clip")
    keeps_pixels = True
    writes_in_place = True


@dataclass(frozen=True)
class ByteMaxPoolStep(_ByteKind):
    """The largest byte of each window."""

    functions = StepFunctions(task="byte_max_pool", size="windowed", nanoseconds="pool_ns")


@dataclass(frozen=True)
class ByteAverageStep(_ByteKind):
    """The mean of each image. `factor` is the scale of the image; `factor2` is the scale of the
    result.
    """

    zero_in: int = 0
    factor: float = 0.0
    factor2: float = 0.0
    functions = StepFunctions(task="byte_average", size="averaged", nanoseconds="average_ns")
