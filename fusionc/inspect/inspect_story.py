"""The story: load a model, ask what each file of this room asks, and hand out what was found."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusionc.disk.load import load
from fusionc.inspect import integers, kernels, recurrences, sizes, weights
from fusionc.inspect.dry_run import dry_run
from fusionc.inspect.finding import Finding
from fusionc.report.model_info import information
from fusionc.shapes.inference import typed_model


@dataclass(frozen=True)
class Inspection:
    """What a model holds, as names and values, and what was found in its nodes, its weights and its
    sizes.
    """

    path: Path
    facts: list[tuple[str, str]]
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"model": str(self.path), "findings": [asdict(finding) for finding in self.findings]}


def inspect(path: Path) -> Inspection:
    """Look a model over without changing it, and ask the passes what they would do.

    Raises FusioncError where the file is no model.
    """
    proto = load(path)
    facts = information(proto)
    model = typed_model(proto, os.fspath(path.parent))
    dry = dry_run(path)
    found = (
        *kernels.findings(model, dry),
        *integers.findings(model, dry),
        *recurrences.findings(model),
        *weights.findings(model, dry),
        *sizes.findings(model),
    )
    return Inspection(path, facts, found)
