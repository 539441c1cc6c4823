"""Convolutions in which each lane of a vector (each of its floats) reads its own channels."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions

# The numbers of columns of the window for which the C code has special functions. With any other
# number, a convolution takes _OTHER_COLUMNS times as long as in onnxruntime.
_COLUMNS = (3, 5, 7)
_OTHER_COLUMNS = 1.12


@dataclass(frozen=True)
class DepthwiseStep(ConvolutionKind):
    """A depthwise convolution."""

    functions = StepFunctions(
        task="by_lane",
        pack="pack_by_lane",
        packed_floats="lane_floats",
        size="windowed",
        nanoseconds="depthwise_ns",
    )
    family = "by_lane"
    keeps_channels = True
    gives_range = True

    def share(self, of: StepEstimate) -> float:
        has_function = of.window.kernel[1] in _COLUMNS
        return super().share(of) if has_function else _OTHER_COLUMNS


@dataclass(frozen=True)
class GroupedStep(ConvolutionKind):
    """A convolution whose groups are not whole blocks of channels."""

    functions = StepFunctions(
        task="by_lane",
        pack="pack_grouped",
        packed_floats="lane_floats",
        size="windowed",
        divide="divide_grouped",
        nanoseconds="grouped_ns",
    )
    family = "by_lane"
    keeps_pixels = True
