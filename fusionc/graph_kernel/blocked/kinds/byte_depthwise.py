"""Depthwise convolutions of 8-bit integers."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import depthwise_seconds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY, ByteConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions


@dataclass(frozen=True)
class ByteDepthwiseStep(ByteConvolutionKind):
    """The weights are [channels, 1, rows, columns]."""

    functions = StepFunctions(
        task="byte_depthwise",
        pack="pack_byte_lanes",
        packed_floats="byte_lanes",
        size="windowed",
    )
    family = FAMILY
    keeps_channels = True
    gives_range = False

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return depthwise_seconds(of)
