"""TensorProto ↔ numpy, external data included, and how many bytes a tensor has without reading it."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from fusionc.errors import FusioncError

Array = np.ndarray[Any, Any]
_READABLE = ("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
_FLOAT_INFO: Callable[[np.dtype[Any]], Any] = ml_dtypes.finfo
_BITS: dict[int, int] = {
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
}


def float_info(dtype: np.dtype[Any]) -> Any:
    """The limits of a floating-point type (`eps`, `max`, `smallest_normal` …), also of those that numpy has not."""
    return _FLOAT_INFO(dtype)


def numpy_type(elem_type: int) -> np.dtype[Any] | None:
    """The numpy type of a TensorProto.DataType; None for undefined."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)) if elem_type else None


def element_type(dtype: np.dtype[Any]) -> int:
    """The TensorProto.DataType of a numpy type (ml_dtypes and strings included)."""
    return TensorProto.STRING if dtype.kind in "OSU" else int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def type_name(elem_type: int) -> str:
    """The name of an element type as onnx spells it, in small letters."""
    return str(TensorProto.DataType.Name(elem_type)).lower()


def byte_size(tensor: TensorProto) -> int:
    """Bytes of the elements as they are stored, computed from the dimensions."""
    if tensor.data_type == TensorProto.STRING:
        return sum(len(s) for s in tensor.string_data)
    count: int = prod(tensor.dims)
    bits = _BITS.get(tensor.data_type) or onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    return (count * bits + 7) // 8


def to_array(tensor: TensorProto, folder: str) -> Array:
    """The elements; external ones are mapped from their file, not read into memory."""
    if tensor.data_type == TensorProto.STRING:  # bytes: they need not be UTF-8
        return np.array(list(tensor.string_data), object).reshape(tuple(tensor.dims))
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    path, offset, length = external_range(tensor, folder)
    dtype = numpy_type(tensor.data_type)
    assert dtype is not None
    if tensor.data_type in _BITS or length == 0:
        with open(path, "rb") as file:
            file.seek(offset)
            inline = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=file.read(length))
        return numpy_helper.to_array(inline)
    return np.memmap(path, dtype=dtype.newbyteorder("<"), mode="r", offset=offset, shape=tuple(tensor.dims))


def external_entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def external_range(tensor: TensorProto, folder: str) -> tuple[str, int, int]:
    """The file of an external tensor with its offset and length in bytes.

    Raises FusioncError where the path leaves the model's folder, the file is missing or too short.
    """
    entries = external_entries(tensor)
    location = entries.get("location", "")
    root, hint = os.path.realpath(folder or "."), "export the model again, with its weights"
    path = os.path.realpath(os.path.join(root, location.replace("\0", "")))
    where = f"external data of tensor {tensor.name!r}: {location!r}"
    if not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root:
        raise FusioncError(
            "the path of external data leaves the model's folder",
            where=where,
            hint="keep weights in the folder of the model and give their path relative to it",
            code="E13001",
        )
    size = byte_size(tensor)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError:
        what = "offset and length of external data must be whole numbers"
        raise FusioncError(what, where=where, hint=hint, code="E13005") from None
    if "\0" in location or not os.path.isfile(path):
        hint = f"copy the file of weights to {root}, or {hint}"
        raise FusioncError("the file of external data does not exist", where=where, hint=hint, code="E10410")
    if offset < 0 or length < size or offset + length > os.path.getsize(path):
        raise FusioncError(
            "the file of external data is shorter than the tensor",
            where=where,
            hint="copy the weights again; the file may be truncated",
            code="E13003",
        )
    return path, offset, length


def is_readable(node: onnx.NodeProto) -> bool:
    """Whether the value of a Constant node is a dense tensor that is written out in the node."""
    return len(node.attribute) == 1 and node.attribute[0].name in _READABLE and not node.attribute[0].ref_attr_name


def constant_node_array(node: onnx.NodeProto, folder: str) -> Array:
    """The value of a Constant node, whichever attribute holds it."""
    attribute = node.attribute[0]
    match attribute.name:
        case "value":
            return to_array(attribute.t, folder)
        case "value_float":
            return np.array(attribute.f, np.float32)
        case "value_floats":
            return np.array(attribute.floats, np.float32)
        case "value_int":
            return np.array(attribute.i, np.int64)
        case "value_ints":
            return np.array(attribute.ints, np.int64)
        case "value_string":
            return np.array(attribute.s, object)
        case _:
            return np.array(list(attribute.strings), object)


def to_proto(array: Array, name: str) -> TensorProto:
    """A TensorProto with these elements, in the byte order that ONNX has."""
    tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    return tensor
