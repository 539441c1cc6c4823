"""Read, write and move the elements of a tensor. They are inside the TensorProto or in a file."""

from __future__ import annotations

import io
import os
from typing import Protocol

from onnx import TensorProto

from fusionc.disk.external_data import external_range
from fusionc.model import tensors

STORAGE = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
    "external_data", "data_location",
)  # fmt: skip
_CHUNK = 16 << 20


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object:
        """Append these bytes."""


def write_elements(tensor: TensorProto, folder: str, file: _Sink) -> None:
    """Write the elements of a tensor, which are `tensors.byte_size` bytes. External data is read
    from `folder`. Raises UsageError or FusioncError if external data is missing.
    """
    if tensor.data_location == TensorProto.EXTERNAL:
        path, start, _ = external_range(tensor, folder)
        size = tensors.byte_size(tensor)
        with open(path, "rb") as source:
            source.seek(start, os.SEEK_SET)
            for at in range(0, size, _CHUNK):
                file.write(source.read(min(_CHUNK, size - at)))
    elif tensor.HasField("raw_data"):
        file.write(tensor.raw_data)
    else:
        file.write(tensors.to_proto(tensors.to_array(tensor, ""), tensor.name).raw_data)


def read_elements(tensor: TensorProto, folder: str) -> bytes:
    """The elements of a tensor as bytes."""
    data = io.BytesIO()
    write_elements(tensor, folder, data)
    return data.getvalue()


def make_inline(tensor: TensorProto, data: bytes) -> None:
    """Store these elements inside the tensor."""
    clear_data(tensor)
    tensor.raw_data = data


def make_external(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Make a tensor refer to its elements in a file."""
    clear_data(tensor)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def clear_data(tensor: TensorProto) -> None:
    """Remove the elements from a tensor."""
    for field in STORAGE:
        tensor.ClearField(field)
