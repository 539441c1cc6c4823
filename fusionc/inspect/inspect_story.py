"""Load a model, and collect the findings from each file of this package."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusionc.disk.load import load
from fusionc.inspect import integers, kernels, quantized, recurrences, sizes, weights
from fusionc.inspect.dry_run import dry_run
from fusionc.inspect.finding import Finding
from fusionc.report.model_info import information
from fusionc.report.run_cost import RunCost
from fusionc.report.table import cost_text
from fusionc.shapes.inference import typed_model


@dataclass(frozen=True)
class Inspection:
    """Facts about a model, and the findings in its nodes, weights and sizes."""

    path: Path
    facts: list[tuple[str, str]]  # names and values
    cost: RunCost | None  # of a run of the converted model; None if a conversion would fail
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The facts and findings as plain data."""
        return {
            "model": str(self.path),
            "cost": None if self.cost is None else asdict(self.cost),
            "findings": [asdict(finding) for finding in self.findings],
        }


def inspect(path: Path) -> Inspection:
    """Examine a model without changing it, and ask the passes what they would do.

    Raises FusioncError if the file is not a model.
    """
    proto = load(path)
    facts = information(proto)
    model = typed_model(proto, os.fspath(path.parent))
    dry = dry_run(path)
    facts += [] if dry.cost is None else [("cost", cost_text(dry.cost))]
    found = (
        *kernels.findings(model, dry),
        *quantized.findings(model, dry, path),
        *integers.findings(model, dry),
        *recurrences.findings(model),
        *weights.findings(model, dry),
        *sizes.findings(model),
    )
    return Inspection(path, facts, dry.cost, found)
