"""Element types: the C type of a value in memory, and the C type with which kernels compute.

Kernels compute float16 as float. Values between the operators of an area keep the precision of
float. Only the results of Casts and the outputs of the area are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported


@dataclass(frozen=True)
class CType:
    """An element type in C."""

    name: str  # the suffix of the names of its C functions
    stored: str  # the C type in memory
    local: str  # the C type of variables
    bytes: int  # of an element in memory
    load: str = "{}"  # converts `stored` to `local`
    store: str = "{}"  # converts `local` to `stored`

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.name in ("f32", "f64")


F32 = CType("f32", "float", "float", 4)
I64 = CType("i64", "int64_t", "int64_t", 8)
BOOL = CType("b", "uint8_t", "int32_t", 1)  # as wide as a float, so that both fit into one vector
_CTYPES: dict[int, CType] = {
    TensorProto.FLOAT: F32,
    TensorProto.FLOAT16: CType("f32", "uint16_t", "float", 2, "gk_from_half({})", "gk_to_half({})"),
    TensorProto.DOUBLE: CType("f64", "double", "double", 8),
    TensorProto.INT32: CType("i32", "int32_t", "int32_t", 4),
    TensorProto.INT64: I64,
    TensorProto.INT8: CType("i8", "int8_t", "int8_t", 1),
    TensorProto.UINT8: CType("u8", "uint8_t", "uint8_t", 1),
    TensorProto.BOOL: BOOL,
}


def ctype_of(dtype: int) -> CType:
    """The C type for an ONNX element type. Raises Unsupported if kernels do not compute with it."""
    if dtype not in _CTYPES:
        raise Unsupported(f"no kernel computes with {TensorProto.DataType.Name(dtype)}")
    return _CTYPES[dtype]


def literal(ctype: CType, value: np.generic | float) -> str:
    """A C constant with this value."""
    if not ctype.is_float:
        number = int(value)
        return (
            "INT64_MIN"
            if number == -(2**63)
            else f"INT64_C({number})"
            if ctype is I64
            else str(number)
        )
    real = float(value)
    if np.isnan(real):
        return "NAN"
    if np.isinf(real):
        return "INFINITY" if real > 0 else "-INFINITY"
    return real.hex() + ("f" if ctype.name == "f32" else "")


def table(ctype: CType, array: np.ndarray) -> str:
    """The elements of a C array, in the form in which they are stored."""
    if ctype.stored == "uint16_t":
        return ", ".join(map(str, array.view(np.uint16).ravel()))
    return ", ".join(literal(ctype, value) for value in array.ravel())
