"""Write a ModelProto of any size to files in a temporary folder, and read a result back. The proto
is not changed.

The files are needed because onnxruntime, which runs in another process, reads files, and so do all
checks of a result. Two kinds of weights are moved to one temporary file: external weights, and all
large weights of a model that is too large for protobuf. If a moved weight is still in the result,
it is stored there as it was in the given model: as bytes, or as external data in the user's file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError, Message
from onnx import TensorProto

from fusionc import protos
from fusionc.disk.external_data import external_entries
from fusionc.disk.save import LIMIT, WORTH_MOVING
from fusionc.disk.tensor_data import (
    STORAGE,
    clear_data,
    make_external,
    make_inline,
    read_elements,
    write_elements,
)
from fusionc.errors import FusioncError
from fusionc.model.tensors import byte_size

_WEIGHTS = "weights"
_ALIGNMENT = 64  # bytes
_KNOWN_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}

# the moved weights of the model, by their offsets in the temporary file
Moved = Mapping[int, TensorProto]


def write(proto: onnx.ModelProto, path: Path, folder_of: Callable[[TensorProto], str]) -> Moved:
    """Write a model, and return its moved weights. `folder_of` gives the folder of the external
    data of a tensor.

    Raises FusioncError if external data is missing, or if the model without its weights is too
    large for protobuf.
    """
    everything = list(protos.tensors_of(proto))
    is_large = sum(_size(tensor) for tensor in everything if not _is_external(tensor)) > LIMIT
    if not is_large and not any(map(_is_external, everything)):
        path.write_bytes(serialize(proto, str(path)))
        return {}
    copy = _copy(proto, is_large)
    moved: dict[int, TensorProto] = {}
    with path.with_name(_WEIGHTS).open("wb") as file:
        for original, tensor in zip(everything, protos.tensors_of(copy), strict=True):
            if _is_external(tensor) and _size(tensor) == 0:
                # onnxruntime would read an external tensor of size 0 to the end of the file and
                # fail
                make_inline(tensor, b"")
            elif _is_external(tensor):
                offset = file.tell()
                write_elements(original, folder_of(original), file)
                size = file.tell() - offset
                make_external(tensor, _WEIGHTS, offset, size)
                file.write(bytes(_ALIGNMENT - size % _ALIGNMENT))
                moved[offset] = original
    path.write_bytes(serialize(copy, str(path)))
    return moved


def read(path: Path, moved: Moved) -> onnx.ModelProto:
    """Read a result. Its moved weights are stored again as they were in the model; all other
    weights are read into memory.
    """
    proto = onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
    for tensor in filter(_is_external, protos.tensors_of(proto)):
        entries = external_entries(tensor)
        original = (
            moved.get(int(entries.get("offset", 0))) if entries["location"] == _WEIGHTS else None
        )
        if original is None:
            make_inline(tensor, read_elements(tensor, os.fspath(path.parent)))
        else:
            clear_data(tensor)
            _copy_fields(original, tensor, STORAGE.__contains__)
    return proto


def serialize(proto: onnx.ModelProto, where: str) -> bytes:
    """The bytes of a model. Raises FusioncError if the model is too large for protobuf."""
    try:
        return bytes(proto.SerializeToString())
    except EncodeError as error:
        what = "the model is too large for protobuf, even without its initializers"
        hint = "turn large Constant nodes into initializers"
        hint += ", or give the path of a model with external data"
        raise FusioncError(what, where=where, hint=hint, code="E13004") from error


def _copy(proto: onnx.ModelProto, is_large: bool) -> onnx.ModelProto:
    """A copy of the model. In the copy of a large model, large initializers are marked as external
    and have no data.
    """
    copy = onnx.ModelProto()
    if not is_large:
        copy.CopyFrom(proto)
        return copy
    _copy_fields(proto, copy, lambda name: name != "graph")
    _copy_fields(proto.graph, copy.graph, lambda name: name != "initializer")
    for tensor in proto.graph.initializer:
        copied = copy.graph.initializer.add()
        if tensor.data_type != TensorProto.STRING and _size(tensor) >= WORTH_MOVING:
            _copy_fields(tensor, copied, lambda name: name not in STORAGE)
            copied.data_location = TensorProto.EXTERNAL
        else:
            copied.CopyFrom(tensor)
    return copy


def _copy_fields(message: Message, copy: Message, is_wanted: Callable[[str], bool]) -> None:
    for field, value in message.ListFields():
        if not is_wanted(field.name):
            continue
        if isinstance(value, Message):
            getattr(copy, field.name).CopyFrom(value)
        elif field.is_repeated:
            getattr(copy, field.name).extend(value)
        else:
            setattr(copy, field.name, value)


def _is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def _size(tensor: TensorProto) -> int:
    # the size of an unknown type is unknown; an error is raised later, when the tensor is read
    return byte_size(tensor) if tensor.data_type in _KNOWN_TYPES else 0
