"""A hash of everything that a result depends on. If two hashes are equal, so are the results."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from fusionc.disk.content import content_if_any
from fusionc.disk.external_data import external_entries
from fusionc.protos import tensors_of


def ingredients(source: Path, options: Mapping[str, Any], written: Collection[str]) -> str:
    """The hash of everything that a result depends on: the model `source` with its weights, the
    options, and the contents of the files and folders that the options name. The options in
    `written` name output files, so the contents of these are ignored.
    """
    hashed = hashlib.sha256(json.dumps(options, sort_keys=True, default=str).encode())
    for name, value in sorted(options.items()):
        for path in _paths(value) if name not in written else ():
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                hashed.update(os.fsencode(f"{file.name} {content_if_any(file)}"))
    for file in files_of_model(source):
        hashed.update(content_if_any(file).encode())
    return hashed.hexdigest()


def files_of_model(model: Path) -> list[Path]:
    """A model file and the files of its weights. If the model cannot be read, only the model file
    is returned; loading the model later raises an error.
    """
    try:
        proto = onnx.load(os.fspath(model), format="protobuf", load_external_data=False)
    except Exception:  # protobuf's errors have no common base
        return [model]
    external = [
        tensor for tensor in tensors_of(proto) if tensor.data_location == TensorProto.EXTERNAL
    ]
    locations = {external_entries(tensor).get("location", "") for tensor in external}
    return [model, *(model.parent / location for location in sorted(locations))]


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, tuple):
        yield from (part for part in value if isinstance(part, Path))
