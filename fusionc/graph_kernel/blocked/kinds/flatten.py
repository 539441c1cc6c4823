"""Convert images of one pixel to rows, or rows to such images."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind


@dataclass(frozen=True)
class FlattenStep(StepKind):
    """One row for each image, or one image for each row."""

    functions = StepFunctions(task="flatten", size="flattened", divide="divide_blocks")
