"""What a converting process is asked for: one model of many, by paths that hold in any process on
any machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusionc.batch.find_models import RECORDS


@dataclass(frozen=True)
class ConversionTask:
    """A model to convert.

    `name` is that of its result in the folder `output`; `arguments` are those of `fusionc.convert`,
    but for model and output; `run` is a number of the command that asks; `keeps_results` is
    --resume.
    """

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
        """The folder of the log, of fusion_result.json and of the outcome, which nobody takes for a
        model by name.
        """
        return self.output / RECORDS / f"{self.name}.record"

    def own_arguments(self) -> dict[str, Any]:
        """The arguments with places of its own for what a conversion writes besides the result."""
        own = dict(self.arguments)
        if own.get("dump_graph") is not None:
            own["dump_graph"] = own["dump_graph"] / self.name
        if own.get("report") is not None:
            page = f"{self.name.removesuffix('.onnx')}.html"  # of a.ONNX another than of a.onnx
            own["report"] = own["report"] / page
        return own
