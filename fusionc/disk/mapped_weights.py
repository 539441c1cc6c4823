"""Read and write model files without holding large weights in memory.

Protobuf would hold each weight twice: in the bytes of the file, and in the message. This module
instead walks through protobuf's wire format, leaves large weights out, and parses only the rest. In
the resulting proto, these weights are mapped: they are external data whose file is the model file
itself. When the model is written, the bytes of such weights are copied from file to file.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import GraphProto, ModelProto, TensorProto

from fusionc.disk.external_data import external_range
from fusionc.disk.tensor_data import STORAGE, make_external, make_inline, read_elements
from fusionc.model.tensors import byte_size
from fusionc.protos import MAPPED, is_mapped

WORTH_MAPPING = 1 << 16  # bytes; smaller tensors are read often, so they stay in memory
_BYTES = 2  # the wire type of fields with a length: messages, strings, bytes
# The tags (field number and wire type) of ModelProto.graph, GraphProto.initializer and
# TensorProto.raw_data.
_GRAPH, _INITIALIZER, _RAW_DATA = (number << 3 | _BYTES for number in (7, 5, 9))
_SIZED = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}
_CHUNK = 16 << 20


def read_mapped(path: Path) -> ModelProto:
    """Read a model file. Large initializers become external data in the model file itself, and have
    the additional key `protos.MAPPED`. If the file is not a model, the exceptions of onnx and
    protobuf are raised.
    """
    if path.stat().st_size > WORTH_MAPPING:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            small = _light_model(data, path.name)
        if small is not None:
            proto = ModelProto()
            proto.ParseFromString(small)
            return proto
    return onnx.load(os.fspath(path), format="protobuf", load_external_data=False)


def write_mapped(proto: ModelProto, folder: Path, path: Path) -> None:
    """Write a model to `path`. The files of its external data and of its mapped tensors are in
    `folder`. The written bytes are those that protobuf would write, but they are never all in
    memory at once.
    """
    if not any(map(_is_streamed, proto.graph.initializer)):
        path.write_bytes(proto.SerializeToString())
    # if there are unknown fields, the whole model must be written by protobuf
    elif len(UnknownFieldSet(proto)) or len(UnknownFieldSet(proto.graph)):
        whole = ModelProto()
        whole.CopyFrom(proto)
        for tensor in filter(is_mapped, whole.graph.initializer):
            restore(tensor, read_elements(tensor, os.fspath(folder)))
        path.write_bytes(whole.SerializeToString())
    else:
        with open(path, "wb") as file:
            _write_streamed(proto, folder, file)


def restore(tensor: TensorProto, data: bytes) -> None:
    """Store the elements of a mapped tensor in the tensor itself, in the form that the file had."""
    has_location = _states_location(tensor)
    make_inline(tensor, data)
    if has_location:
        tensor.data_location = TensorProto.DEFAULT


def show_as_external(proto: ModelProto) -> ModelProto:
    """Turn mapped tensors into ordinary external data. Return the proto, which is changed."""
    for tensor in filter(is_mapped, proto.graph.initializer):
        kept = [entry for entry in tensor.external_data if entry.key != MAPPED]
        del tensor.external_data[:]
        tensor.external_data.extend(kept)
    return proto


def _is_streamed(tensor: TensorProto) -> bool:
    if is_mapped(tensor):
        return True
    return (
        tensor.HasField("raw_data")
        and byte_size(tensor) >= WORTH_MAPPING
        and not len(UnknownFieldSet(tensor))
    )


def _states_location(tensor: TensorProto) -> bool:
    """Whether the file of a mapped tensor contains the field data_location, although it has the
    default value.
    """
    return any(entry.key == MAPPED and entry.value for entry in tensor.external_data)


# Reading


def _light_model(data: mmap.mmap, name: str) -> bytes | None:
    """The bytes of a model whose large weights are mapped. `None` if the file has no such weights,
    or has an unusual form.
    """
    try:
        graphs = [field for field in wire_fields(data, 0, len(data)) if field[0] == _GRAPH]
        if len(graphs) != 1:
            return None
        ((_, begin, at, end),) = graphs
        pieces = list[bytes]()
        kept = at
        for tag, start, inside, stop in wire_fields(data, at, end):
            if tag == _INITIALIZER and stop - inside >= WORTH_MAPPING:
                tensor = _light_tensor(data, inside, stop, name)
                if tensor is not None:
                    pieces += [data[kept:start], _tagged(_INITIALIZER, tensor.SerializeToString())]
                    kept = stop
    except (ValueError, IndexError):  # the file is damaged; parsing it later will fail
        return None
    if not pieces:
        return None
    return b"".join(
        (data[:begin], _tagged(_GRAPH, b"".join((*pieces, data[kept:end]))), data[end:])
    )


def _light_tensor(data: mmap.mmap, at: int, end: int, name: str) -> TensorProto | None:
    """The tensor in data[at:end], mapped. `None` if it cannot be mapped."""
    raw = [field for field in wire_fields(data, at, end) if field[0] == _RAW_DATA]
    if len(raw) != 1:
        return None
    ((_, begin, inside, stop),) = raw
    tensor = TensorProto()
    tensor.ParseFromString(data[at:begin] + data[stop:end])
    others = {descriptor.name: value for descriptor, value in tensor.ListFields()}
    location = others.pop("data_location", None)
    if (
        location
        or not others.keys().isdisjoint((*STORAGE, "segment"))
        or tensor.data_type not in _SIZED
    ):
        return None
    size = stop - inside
    if min(tensor.dims, default=0) < 0 or byte_size(tensor) != size or size < WORTH_MAPPING:
        return None
    make_external(tensor, name, inside, size)
    tensor.external_data.add(key=MAPPED, value="" if location is None else "inline")
    return tensor


def wire_fields(data: mmap.mmap | bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message in data[at:end], each as (tag, start of the field, start of its
    value, end). Raises ValueError or IndexError if the bytes are not a message.
    """
    while at < end:
        begin = at
        tag, at = _number(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _number(data, at)
            stop = at + size
        elif kind == 0:
            _, stop = _number(data, at)
        elif kind in (1, 5):
            stop = at + (8 if kind == 1 else 4)
        else:
            raise ValueError
        if stop > end:
            raise ValueError
        yield tag, begin, at, stop
        at = stop


def _number(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """The variable-length integer at this offset, and the offset after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise ValueError


# Writing


def _write_streamed(proto: ModelProto, folder: Path, file: BinaryIO) -> None:
    tensors = [(tensor, *_halves(tensor)) for tensor in proto.graph.initializer]
    sizes = [
        len(head) + len(tail) + (byte_size(t) if _is_streamed(t) else 0)
        for t, head, tail in tensors
    ]
    before, after = _split(_drop_field(proto.graph, "initializer", GraphProto()), _INITIALIZER)
    whole = len(before) + len(after) + sum(len(_start(_INITIALIZER, size)) + size for size in sizes)
    first, last = _split(_drop_field(proto, "graph", ModelProto()), _GRAPH)
    file.write(first + _start(_GRAPH, whole) + before)
    for (tensor, head, tail), size in zip(tensors, sizes, strict=True):
        file.write(_start(_INITIALIZER, size) + head)
        if is_mapped(tensor):
            source, offset, length = external_range(tensor, os.fspath(folder))
            with open(source, "rb") as data:
                _copy(data, file, offset, length)
        elif _is_streamed(tensor):
            file.write(tensor.raw_data)
        file.write(tail)
    file.write(after + last)


def _halves(tensor: TensorProto) -> tuple[bytes, bytes]:
    """The bytes of a tensor that precede its elements, and the bytes that follow them. If the
    elements are not streamed (copied from file to file), the first part is the whole tensor.
    """
    if not _is_streamed(tensor):
        return tensor.SerializeToString(), b""
    size = byte_size(tensor)
    has_location = is_mapped(tensor) and _states_location(tensor)
    light = TensorProto()
    if is_mapped(tensor):
        light.CopyFrom(tensor)
        light.ClearField("external_data")
        light.ClearField("data_location")
        if has_location:
            light.data_location = TensorProto.DEFAULT
    else:
        _drop_field(tensor, "raw_data", light)
    head, tail = _split(light, _RAW_DATA)
    return head + _start(_RAW_DATA, size), tail


def _drop_field(message: Message, field: str, copy: Message) -> Message:
    """Copy a message into `copy`, except one large field."""
    for descriptor, value in message.ListFields():
        if descriptor.name == field:
            continue
        if isinstance(value, Message):
            getattr(copy, descriptor.name).CopyFrom(value)
        elif isinstance(value, str | bytes | int | float):
            setattr(copy, descriptor.name, value)
        else:
            getattr(copy, descriptor.name).extend(value)
    return copy


def _split(message: Message, tag: int) -> tuple[bytes, bytes]:
    """The bytes of a message before and after the place that the missing field `tag` would have."""
    data = message.SerializeToString()
    at = next(
        (begin for other, begin, _, _ in wire_fields(data, 0, len(data)) if other >> 3 > tag >> 3),
        len(data),
    )
    return data[:at], data[at:]


def _tagged(tag: int, content: bytes) -> bytes:
    return _start(tag, len(content)) + content


def _start(tag: int, size: int) -> bytes:
    """The tag and the length with which a field begins, as bytes."""
    start = bytearray([tag])
    while size >= 0x80:
        start.append(size & 0x7F | 0x80)
        size >>= 7
    start.append(size)
    return bytes(start)


def _copy(source: BinaryIO, target: BinaryIO, offset: int, size: int) -> None:
    """Copy a part of a file. If possible, the operating system copies it without giving it to
    Python.
    """
    target.flush()
    remaining = size
    try:
        while remaining and (
            count := os.copy_file_range(
                source.fileno(), target.fileno(), remaining, offset + size - remaining
            )
        ):
            remaining -= count
    except (AttributeError, OSError):  # not supported by the operating system or the file system
        pass
    target.seek(0, os.SEEK_END)
    source.seek(offset + size - remaining)
    while remaining:
        data = source.read(min(_CHUNK, remaining))
        if not data:
            raise OSError("the model file was truncated while it was read")
        target.write(data)
        remaining -= len(data)
