"""A model on disk, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from fusionc.errors import said
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.seeding import random_nodes, seeded_runner


@dataclass
class ModelFile:
    """A model, and the library of its kernels, if it has one."""

    path: Path
    kernels: Path | None = None
    _is_random: bool | None = field(default=None, init=False)

    def proto(self) -> onnx.ModelProto:
        """The model without its external data. Raises RunError."""
        try:
            model = onnx.load(self.path, load_external_data=False)
        except Exception as error:  # protobuf, the file system and onnx raise errors of their own
            raise RunError(said(error)) from error
        self._is_random = bool(random_nodes(model))
        return model

    def runner(self, level: str = "disabled", disabled: Sequence[str] = ()) -> Runner:
        """What runs it, as Runner explains level and disabled. Raises RunError."""
        model = self.proto() if self._is_random is not False else None
        if model is None or not self._is_random:
            return Runner(self.path, kernels=self.kernels, level=level, disabled=disabled)
        return seeded_runner(model, self.path.parent, self.kernels, level=level, disabled=disabled)
