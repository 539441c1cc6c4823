"""Gathering of channels that lie apart in an image."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.load_store import copy_seconds
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class PickStep(StepKind):
    """Channels of an image, one of each group in turn."""

    kept: int = 0  # channels of the result that stay what they are, before those of the image
    skipped: int = 0  # channels of the image, before those that are picked
    groups: int = 1
    functions = StepFunctions(task="pick")
    is_copy = True
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return copy_seconds(of), 0.0
