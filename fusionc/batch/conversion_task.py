"""The task of a converting process: one model of many. All paths are absolute, because the process
may run in another folder or on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusionc.batch.find_models import RECORDS


@dataclass(frozen=True)
class ConversionTask:
    """One model to convert, and what to do with its result."""

    source: Path
    name: str  # the path of the result in `output`
    output: Path  # the folder for all results
    arguments: Mapping[str, Any]  # the arguments of `fusionc.convert`
    run: str  # identifies the call of `convert_many`
    keeps_results: bool  # whether an existing result is kept instead of made again (--resume)

    @property
    def destination(self) -> Path:
        """The path of the result."""
        return self.output / self.name

    @property
    def records(self) -> Path:
        """The folder for the log, fusion_result.json and the outcome. Its name cannot be the name
        of a model, because it ends in .record.
        """
        return self.output / RECORDS / f"{self.name}.record"

    def own_arguments(self) -> dict[str, Any]:
        """The arguments, with paths of this model alone for its dump and its page."""
        own = dict(self.arguments)
        if own.get("dump_graph") is not None:
            own["dump_graph"] = own["dump_graph"] / self.name
        if own.get("report") is not None:
            # The suffix of a.ONNX stays, so that its page does not replace the page of a.onnx.
            page = f"{self.name.removesuffix('.onnx')}.html"
            own["report"] = own["report"] / page
        return own
