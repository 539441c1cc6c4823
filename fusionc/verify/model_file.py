"""A model on disk, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from fusionc.errors import said
from fusionc.runtime.optimizers import DISABLED
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.seeding import random_nodes, seeded_runner

# A weight that lies in a file is used where it lies; packed for the processor, it is there once more.
LEAN = {"session.disable_prepacking": "1"}


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

    def runner(self, level: str = "disabled", disabled: Sequence[str] = (), is_lean: bool = False) -> Runner:
        """What runs it, at a level of onnxruntime's optimizers, without those that are disabled; lean is slower.

        Raises RunError.
        """
        entries = ({DISABLED: ";".join(disabled)} if disabled else {}) | (LEAN if is_lean else {})
        model = self.proto() if self._is_random is not False else None
        if model is None or not self._is_random:
            return Runner(self.path, kernels=self.kernels, level=level, entries=entries)
        return seeded_runner(model, self.path.parent, self.kernels, level=level, entries=entries)
