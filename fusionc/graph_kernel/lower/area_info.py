"""The values of an area while it is lowered (written as loops): sizes in C, types, producers and
constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.lower.c_types import CType, ctype_of
from fusionc.graph_kernel.lower.symbolic_sizes import Size, SizeCode, Unsupported
from fusionc.model.operators import decode_attribute
from fusionc.model.tensors import element_type
from fusionc.operators.polynomials import number

KernelShape = tuple[Size, ...]


class AreaInfo:
    """An area while it is lowered. `infer_sizes` fills in the shapes."""

    def __init__(self, area: Area) -> None:
        self.area = area
        self.sizes = SizeCode()
        self.shapes: dict[str, KernelShape] = {}
        self.symbols: dict[str, Size] = {}
        self.wrongly_inferred: set[str] = set()  # values whose declared sizes may be wrong
        self.producers = {
            name: (node, k) for node in area.nodes for k, name in enumerate(node.output) if name
        }
        for name, array in area.constants.items():
            self.shapes[name] = tuple(number(n) for n in array.shape)

    def dtype(self, name: str) -> int:
        """The onnx.TensorProto data type of a value."""
        if name in self.area.constants:
            return element_type(self.area.constants[name].dtype)
        return self.area.values[name].dtype

    def ctype(self, name: str) -> CType:
        """The C type of a value. Raises Unsupported if kernels do not compute with its type."""
        return ctype_of(self.dtype(name))

    def declared(self, name: str, axis: int) -> Size | None:
        """The declared size of a dimension: a number, or the size of its symbol. `None` if the size
        of the symbol is unknown.
        """
        dim = self.area.values[name].shape[axis]
        return number(dim) if isinstance(dim, int) else self.symbols.get(dim)


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """An attribute of a node as a Python value. `default` if the node lacks the attribute."""
    for item in node.attribute:
        if item.name == name:
            return decode_attribute(item)
    return default


def constant(info: AreaInfo, node: onnx.NodeProto, k: int) -> np.ndarray | None:
    """The value of an optional input. `None` if the input is omitted. Raises Unsupported if it is
    not a constant.
    """
    name = node.input[k] if k < len(node.input) else ""
    if not name:
        return None
    if name not in info.area.constants:
        raise Unsupported(f"input {k} of {node.op_type} is not a constant")
    return info.area.constants[name]


def numbers(info: AreaInfo, node: onnx.NodeProto, k: int, name: str) -> list[int] | None:
    """Integers such as axes. They are an input, or an attribute in older opsets. `None` if neither
    is there. Raises Unsupported if the input is not a constant.
    """
    array = constant(info, node, k)
    found = attribute(node, name) if array is None else array.ravel()
    return None if found is None else [int(v) for v in found]


def first_shape(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    """The shape of the only output, which is the shape of the first input."""
    return [info.shapes[node.input[0]]]


def axes_of(axes: list[int] | None, rank: int) -> list[int]:
    """Axes counted from the front and sorted. None means all axes. Raises Unsupported if an axis is
    repeated or out of range.
    """
    if axes is None:
        return list(range(rank))
    found = sorted({axis + rank if axis < 0 else axis for axis in axes})
    if len(found) != len(axes) or any(not 0 <= axis < rank for axis in found):
        raise Unsupported("an axis is out of range")
    return found
