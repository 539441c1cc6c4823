"""Pick channels of an image that are not adjacent."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.load_store import copy_seconds
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class PickStep(StepKind):
    """Picks channels of an image: the first channel of each group, then the second channel of each
    group, and so on.
    """

    kept: int = 0  # the number of first channels of the result that are already there, and stay
    skipped: int = 0  # the number of channels of the image before the first one that is picked
    groups: int = 1
    functions = StepFunctions(task="pick")
    is_copy = True
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return copy_seconds(of), 0.0
