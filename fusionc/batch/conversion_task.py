"""The task of a converting process: one model of many, with paths that hold in any process on any
machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusionc.batch.find_models import RECORDS


@dataclass(frozen=True)
class ConversionTask:
    """A model to convert."""

    source: Path
    name: str
    output: Path
    arguments: Mapping[str, Any]
    run: str
    keeps_results: bool

    @property
    def destination(self) -> Path:
        """Where the result goes."""
        return self.output / self.name

    @property
    def records(self) -> Path:
        """The folder of the log, of fusion_result.json and of the outcome; its name is unlike that
        of a model.
        """
        return self.output / RECORDS / f"{self.name}.record"

    def own_arguments(self) -> dict[str, Any]:
        """The arguments, with its own places for everything that a conversion writes in addition to
        the result.
        """
        own = dict(self.arguments)
        if own.get("dump_graph") is not None:
            own["dump_graph"] = own["dump_graph"] / self.name
        if own.get("report") is not None:
            page = f"{self.name.removesuffix('.onnx')}.html"  # differs for a.ONNX and a.onnx
            own["report"] = own["report"] / page
        return own
