"""Pools of bfloat16 images."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind


@dataclass(frozen=True)
class NarrowMaxPoolStep(StepKind):
    """The largest element of each window. The result is bfloat16, too."""

    functions = StepFunctions(task="pool_narrow", size="windowed", nanoseconds="pool_ns")
    family = "narrow"
    is_of_widest_vectors = True
    keeps_channels = True


@dataclass(frozen=True)
class NarrowGlobalAverageStep(StepKind):
    """The mean of all pixels of each image. The result is float32."""

    functions = StepFunctions(task="average_narrow", size="averaged", nanoseconds="average_ns")
    family = "narrow"
    is_of_widest_vectors = True
    keeps_channels = True
