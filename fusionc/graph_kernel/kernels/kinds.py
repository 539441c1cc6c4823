"""Element types: how a value lies in memory, and in which C type kernels compute with it.

float16 is computed as float: values between the operators of an area keep float's precision, and only a Cast and the
outputs are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fusionc.graph_kernel.kernels.sizes import Unsupported


@dataclass(frozen=True)
class Kind:
    """`name` ends the names of C functions; `stored` is the C type in memory, `local` that of a variable."""

    name: str
    stored: str
    local: str
    bytes: int
    load: str = "{}"
    store: str = "{}"

    @property
    def is_float(self) -> bool:
        return self.name in ("f32", "f64")


F32 = Kind("f32", "float", "float", 4)
I64 = Kind("i64", "int64_t", "int64_t", 8)
BOOL = Kind("b", "uint8_t", "int32_t", 1)  # as wide as a float, so that both fit into one vector
_KINDS: dict[int, Kind] = {
    TensorProto.FLOAT: F32,
    TensorProto.FLOAT16: Kind("f32", "uint16_t", "float", 2, "gk_from_half({})", "gk_to_half({})"),
    TensorProto.DOUBLE: Kind("f64", "double", "double", 8),
    TensorProto.INT32: Kind("i32", "int32_t", "int32_t", 4),
    TensorProto.INT64: I64,
    TensorProto.INT8: Kind("i8", "int8_t", "int8_t", 1),
    TensorProto.UINT8: Kind("u8", "uint8_t", "uint8_t", 1),
    TensorProto.BOOL: BOOL,
}


def kind_of(dtype: int) -> Kind:
    """Raises Unsupported for types that kernels do not compute with."""
    if dtype not in _KINDS:
        raise Unsupported(f"no kernel computes with {TensorProto.DataType.Name(dtype)}")
    return _KINDS[dtype]


def literal(kind: Kind, value: np.generic | float) -> str:
    """A C constant."""
    if not kind.is_float:
        number = int(value)
        return "INT64_MIN" if number == -(2**63) else f"INT64_C({number})" if kind is I64 else str(number)
    real = float(value)
    if np.isnan(real):
        return "NAN"
    if np.isinf(real):
        return "INFINITY" if real > 0 else "-INFINITY"
    return real.hex() + ("f" if kind.name == "f32" else "")


def table(kind: Kind, array: np.ndarray) -> str:
    """The elements of a C array, as they lie in memory."""
    if kind.stored == "uint16_t":
        return ", ".join(map(str, array.view(np.uint16).ravel()))
    return ", ".join(literal(kind, value) for value in array.ravel())
