"""Conversion between TensorProto and numpy, including external data; types and sizes of tensors."""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from fusionc.protos import NAMELESS

Array = np.ndarray[Any, Any]
Shape = tuple["int | str | None", ...]
_CONSTANT_TYPES: dict[str, type] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}
_FLOAT_INFO: Any = ml_dtypes.finfo
_BITS: dict[int, int] = {
    **dict.fromkeys((TensorProto.INT2, TensorProto.UINT2), 2),
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 4),
}


def float_info(dtype: np.dtype[Any]) -> Any:
    """The limits of a floating-point type (`eps`, `max`, `smallest_normal` …), including types that
    numpy lacks.
    """
    return _FLOAT_INFO(dtype)


def numpy_type(elem_type: int) -> np.dtype[Any] | None:
    """The numpy type of a TensorProto.DataType; None for undefined."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)) if elem_type else None


def element_type(dtype: np.dtype[Any]) -> int:
    """The TensorProto.DataType of a numpy type (ml_dtypes and strings included)."""
    if dtype.kind in "OSU":
        return TensorProto.STRING
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def type_name(elem_type: int) -> str:
    """The name of an element type as onnx spells it, in small letters."""
    return str(TensorProto.DataType.Name(elem_type)).lower()


@dataclass(frozen=True)
class ValueType:
    """The known part of the type of a value."""

    # the TensorProto.DataType; 0 if it is unknown or the value is not a tensor
    elem_type: int = 0
    shape: Shape | None = None
    # the type if the value is not a tensor
    other: onnx.TypeProto = field(default_factory=onnx.TypeProto, hash=False)

    @classmethod
    def of(cls, proto: onnx.TypeProto) -> ValueType:
        """The type in a TypeProto. A negative size becomes an unknown dimension."""
        if not proto.HasField("tensor_type"):
            return cls(other=proto)
        tensor = proto.tensor_type
        return cls(
            tensor.elem_type,
            tuple(map(dimension_of, tensor.shape.dim)) if tensor.HasField("shape") else None,
        )

    @cached_property
    def proto(self) -> onnx.TypeProto:
        """This type as a TypeProto, which must not be changed."""
        if not self.elem_type and self.shape is None:
            return self.other
        return onnx.helper.make_tensor_type_proto(self.elem_type, self.shape)

    def with_symbols(self, names: AbstractSet[Any]) -> ValueType:
        """This type with all symbolic dimensions unknown, except those in `names`."""
        if not self.shape:
            return self
        dims = (dim if isinstance(dim, int) or dim in names else None for dim in self.shape)
        return replace(self, shape=tuple(dims))


UNKNOWN = ValueType()


def dimension_of(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """The size or the symbol of a dimension. None if neither is declared, or if the symbol is a
    placeholder that exporters write for every unknown dimension.
    """
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return None if dim.dim_param in NAMELESS else dim.dim_param


def byte_size(tensor: TensorProto) -> int:
    """The stored size of the elements in bytes, computed from the dimensions."""
    if tensor.data_type == TensorProto.STRING:
        return sum(len(s) for s in tensor.string_data)
    bits = (
        _BITS.get(tensor.data_type)
        or onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    )
    return int(prod(tensor.dims) * bits + 7) // 8


def to_array(tensor: TensorProto, folder: str) -> Array:
    """The elements. External data are mapped from their file and not read into memory.
    `disk.external_data` checked the path and the range when the model was loaded.
    """
    if tensor.data_type == TensorProto.STRING:  # kept as bytes, because they may not be UTF-8
        return np.array(list(tensor.string_data), object).reshape(tuple(tensor.dims))
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    place = {entry.key: entry.value for entry in tensor.external_data}
    path = os.path.join(folder, place["location"])
    offset = int(place.get("offset", 0))
    length = byte_size(tensor)
    if tensor.data_type in _BITS or length == 0:
        raw = np.fromfile(path, np.uint8, length, offset=offset).tobytes()
        return numpy_helper.to_array(
            TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=raw)
        )
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
    # Copy an unaligned array: numpy would read a mapped one piece by piece, and so sum its elements
    # in another order.
    if offset % dtype.itemsize:
        return np.fromfile(path, dtype, length // dtype.itemsize, offset=offset).reshape(
            tuple(tensor.dims)
        )
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=tuple(tensor.dims))


def element_digest(array: Array) -> bytes:
    """A digest of 16 bytes. Arrays of the same type and shape have the same digest only if all bits
    are equal.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    content = (
        repr(flat.tolist()).encode() if array.dtype.kind in "OSU" else flat.view(np.uint8).data
    )
    return blake2b(content, digest_size=16).digest()


def is_readable(node: onnx.NodeProto) -> bool:
    """Whether the value of a Constant node is a dense tensor that is stored in the node."""
    attribute = node.attribute[0] if len(node.attribute) == 1 else onnx.AttributeProto()
    return attribute.name in ("value", *_CONSTANT_TYPES) and not attribute.ref_attr_name


def constant_node_array(node: onnx.NodeProto, folder: str) -> Array:
    """The value of a Constant node, from any of its attributes."""
    attribute = node.attribute[0]
    if attribute.name == "value":
        return to_array(attribute.t, folder)
    value = onnx.helper.get_attribute_value(attribute)
    return np.array(value, _CONSTANT_TYPES[attribute.name])


def to_proto(array: Array, name: str) -> TensorProto:
    """A TensorProto with these elements, in ONNX's byte order."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
