"""A model on disk, and its runners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from fusionc.disk.mapped_weights import read_mapped
from fusionc.errors import said
from fusionc.model.tensors import byte_size
from fusionc.protos import is_external, is_mapped, tensors_of
from fusionc.runtime.optimizers import DISABLED
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.seeding import random_nodes, seeded_runner

# Settings with which onnxruntime uses weights directly from their file, and does not keep a packed
# copy of them in memory.
LEAN = {"session.disable_prepacking": "1"}
# Bytes of a model that is copied with other weights, nodes or inputs: protobuf cannot write more
# than 2 GB.
LARGEST_COPY = 1_500_000_000
# With this many bytes of weights or more, onnxruntime gets the model with external data, and maps
# it. If it reads weights from the model file itself, it temporarily needs three times their memory.
_WORTH_MAPPING = 16 << 20


def light_model(path: Path) -> tuple[onnx.ModelProto, Path]:
    """A model without its external data and large weights, and the folder that has these. Raises
    RunError.

    onnxruntime does not follow links to external data. Therefore, if the model file is a link, the
    folder is that of the real file, unless the data is next to the link.
    """
    real = Path(os.path.realpath(path))
    try:
        model = read_mapped(real)
        if real.parent == path.parent or not any(map(is_external, tensors_of(model))):
            return model, real.parent
        return onnx.load(path, load_external_data=False), path.parent
    except Exception as error:  # protobuf, the file system and onnx raise errors of many types
        raise RunError(said(error)) from error


@dataclass
class ModelFile:
    """A model, and the library of its kernels, if it has one."""

    path: Path
    kernels: Path | None = None
    _runs_as_file: bool | None = field(default=None, init=False)
    folder: Path = field(init=False)  # of external data and large weights, after the model is read

    def proto(self) -> onnx.ModelProto:
        """The model without its external data and large weights. Raises RunError."""
        model, self.folder = light_model(self.path)
        mapped = sum(map(byte_size, filter(is_mapped, model.graph.initializer)))
        self._runs_as_file = mapped < _WORTH_MAPPING and not random_nodes(model)
        return model

    def runner(
        self, level: str = "disabled", disabled: Sequence[str] = (), is_lean: bool = False
    ) -> Runner:
        """A runner of the model at a level of onnxruntime's optimizers, without the disabled ones.
        A lean runner takes less memory and is slower. Raises RunError.
        """
        entries = ({DISABLED: ";".join(disabled)} if disabled else {}) | (LEAN if is_lean else {})
        model = None if self._runs_as_file else self.proto()
        if model is None or self._runs_as_file:
            return Runner(self.path, kernels=self.kernels, level=level, entries=entries)
        return seeded_runner(model, self.folder, self.kernels, level=level, entries=entries)
