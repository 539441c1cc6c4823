"""Values for kernels: their types and sizes, and the constants that become part of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from fusionc.graph_kernel.area import AreaValue
from fusionc.model.graph import Edge, Node

_MOST_EMBEDDED = 64  # integers in a table (axes, sizes or indices) that becomes part of a kernel


def edges_of(node: Node) -> Iterator[Edge]:
    """The inputs and outputs of a node that are present."""
    for edge in (*node.inputs, *node.outputs):
        if edge is not None:
            yield edge


def named(node: Node) -> onnx.NodeProto:
    """The proto of a node with the current names of its inputs and outputs, but without the node's
    own name and the metadata about its origin.
    """
    proto = onnx.NodeProto(op_type=node.op, domain=node.domain, attribute=node.proto.attribute)
    proto.input.extend("" if value is None else value.name for value in node.inputs)
    proto.output.extend("" if value is None else value.name for value in node.outputs)
    return proto


def is_scalar_constant(value: Edge) -> bool:
    """Whether a value is a constant of one element."""
    return value.is_constant and value.shape is not None and all(dim == 1 for dim in value.shape)


def embedded(edge: Edge) -> np.ndarray[Any, Any] | None:
    """The elements of a constant that becomes part of the kernel: one number, or a small table of
    integers. `None` for any other value.

    Larger constants are inputs of the kernel, so that layers with different weights share one
    kernel.
    """
    return edge.constant() if is_scalar_constant(edge) or _is_table(edge) else None


def _is_table(edge: Edge) -> bool:
    shape = edge.shape if edge.is_constant else None
    if shape is None or len(shape) != 1 or edge.dtype is None:
        return False
    return edge.dtype.kind in "iu" and isinstance(shape[0], int) and shape[0] <= _MOST_EMBEDDED


def area_value_of(edge: Edge) -> AreaValue | None:
    """The description of a value for kernels. `None` if its element type or rank is unknown."""
    shape = edge.shape
    elem_type = edge.elem_type
    if shape is None or not elem_type:
        return None
    return AreaValue(
        edge.name, elem_type, tuple(symbol(edge, axis, dim) for axis, dim in enumerate(shape))
    )


def symbol(edge: Edge, axis: int, dim: int | str | None) -> int | str:
    """A dimension of a value. An unknown one gets a symbol that no other dimension has."""
    return f"{edge.name}[{axis}]" if dim is None else dim
