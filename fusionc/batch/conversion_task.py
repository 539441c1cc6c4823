"""What a converting process is asked for: one model of many, by paths that hold in any process on any machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fusionc import __version__
from fusionc.batch.find_models import RECORDS
from fusionc.custom.loading import ENTRY_POINTS
from fusionc.graph_kernel.flags.read_flags import VARIABLE


@dataclass(frozen=True)
class ConversionTask:
    """A model to convert.

    `name` is that of its result in the folder `output`; `arguments` are those of `fusionc.convert`, but for model and
    output; `run` is a number of the command that asks; `keeps_results` is --resume.
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
        """The folder of the log, of fusion_result.json and of the outcome, which nobody takes for a model by name."""
        return self.output / RECORDS / f"{self.name}.record"

    def own_arguments(self) -> dict[str, Any]:
        """The arguments with places of its own for what a conversion writes besides the result."""
        own = dict(self.arguments)
        if own.get("dump_graph") is not None:
            own["dump_graph"] = own["dump_graph"] / self.name
        if own.get("report") is not None:
            own["report"] = (own["report"] / self.name).with_suffix(".html")
        return own


def versions() -> dict[str, str]:
    """What a result depends on besides its model and options: versions, of the packages that bring passes, too, and
    flags of graph kernel fusion where the environment has them."""
    plugins = {entry.dist.name for entry in metadata.entry_points(group=ENTRY_POINTS) if entry.dist is not None}
    names = ("onnx", "onnxruntime", "numpy", *sorted(plugins))
    found = {"fusionc": __version__, **{name: metadata.version(name) for name in names}}
    flags = os.environ.get(VARIABLE)
    return found if flags is None else {**found, VARIABLE: flags}
