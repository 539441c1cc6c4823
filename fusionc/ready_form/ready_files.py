"""Write the files of a ready form: the model as optimized by onnxruntime, and a file of weights
that can be mapped into memory.

onnxruntime writes the optimized model, and a data file with the weights and with the packed copies
that its kernels make. In this file a weight may begin at any byte. This module moves the weights to
page boundaries: a mapped weight then begins with a page, and vectors are loaded from aligned
addresses.
"""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto

from fusionc import protos
from fusionc.disk.external_data import external_entries
from fusionc.disk.hashed_file import PAGE, HashedFile
from fusionc.disk.publish import Saved, data_of, digest, ready_of, short
from fusionc.runtime.custom_operators import libraries_in_use
from fusionc.runtime.process import insist, request

_MODEL = "optimized.onnx"
_DATA = "optimized.data"
# The prefix of the keys of packed copies. A value has the form
# "operator+hash|offset;length;checksum|…".
_PACKED = "prepacked_"
_CACHE_LINE = 64  # bytes; weights smaller than a page are aligned to cache lines
_CHUNK = 16 << 20  # bytes that are copied at a time


@dataclass(frozen=True)
class ReadyFiles:
    """The temporary files of a ready form. The model can be run."""

    model: Path
    weights: Path | None  # None if all weights are small and in the model file


def write_ready_files(saved: Saved, kernels: Path | None) -> ReadyFiles:
    """Write the ready form of a saved model with these kernels to its temporary folder.

    Raises RunError if onnxruntime cannot load the model, and OSError if the files cannot be
    written.
    """
    libraries = (*libraries_in_use(), *(() if kernels is None else (str(kernels.resolve()),)))

    def optimized() -> Path:
        folder = Path(tempfile.mkdtemp(dir=saved.workshop.absolute()))
        request(
            "write_optimized", os.path.abspath(saved.model), libraries, str(folder / _MODEL), _DATA
        )
        return folder

    folder = insist(optimized)
    proto = onnx.load(folder / _MODEL, load_external_data=False)
    _remove_unused_imports(proto)
    external = [
        tensor
        for tensor in protos.tensors_of(proto)
        if tensor.data_location == TensorProto.EXTERNAL
    ]
    weights = None
    if external:
        aligned = folder / "aligned.data"
        with (folder / _DATA).open("rb") as source, aligned.open("wb") as target:
            file = HashedFile(target)
            for tensor in external:
                _move(tensor, source, file)
        weights = aligned.rename(data_of(folder / saved.output.name, short(file.hash.hexdigest())))
        for tensor in external:
            next(
                entry for entry in tensor.external_data if entry.key == "location"
            ).value = weights.name
        (folder / _DATA).unlink()
    model = folder / _MODEL
    model.write_bytes(proto.SerializeToString())
    return ReadyFiles(model.rename(ready_of(folder / saved.output.name, digest(model))), weights)


def _remove_unused_imports(proto: onnx.ModelProto) -> None:
    """Remove imports of domains that no node uses. They are in the file because onnxruntime imports
    every domain that its process knows, including domains of earlier models.
    """
    used = {"", *(node.domain for node in protos.nodes_of(proto))}
    imports = [entry for entry in proto.opset_import if entry.domain in used]
    del proto.opset_import[:]
    proto.opset_import.extend(imports)


def _move(tensor: TensorProto, source: BinaryIO, file: HashedFile) -> None:
    """Append a weight and its packed copies to a file. Store their new offsets in the tensor."""
    entries = external_entries(tensor)
    begin = _append(file, source, int(entries["offset"]), int(entries["length"]))
    for entry in tensor.external_data:
        if entry.key == "offset":
            entry.value = str(begin)
        elif entry.key.startswith(_PACKED):
            name, *places = entry.value.split("|")
            entry.value = "|".join([name, *(_moved(place, source, file) for place in places)])


def _moved(place: str, source: BinaryIO, file: HashedFile) -> str:
    """Append a packed copy to the file. `place` and the result have the form
    "offset;length;checksum".
    """
    offset, length, checksum = place.split(";")
    return f"{_append(file, source, int(offset), int(length))};{length};{checksum}"


def _append(file: HashedFile, source: BinaryIO, offset: int, length: int) -> int:
    """Append bytes of the source to a file, and return their offset in the file.

    Raises OSError if the source is too short.
    """
    begin = file.align(PAGE if length >= PAGE else _CACHE_LINE)
    source.seek(offset)
    for at in range(0, length, _CHUNK):
        file.write(source.read(min(_CHUNK, length - at)))
    if file.size != begin + length:
        raise OSError(errno.EIO, "onnxruntime has not written all weights")
    return begin
