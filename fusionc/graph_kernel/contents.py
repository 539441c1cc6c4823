"""What a kernel can contain: the question that cluster and split ask of every operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import onnx

from fusionc.graph_kernel.area import Operand
from fusionc.graph_kernel.operators import qualified
from fusionc.model.graph import Edge, Node

_MOST_EMBEDDED = 64  # integers; a table of axes, sizes or indices that a kernel is made for
_INVENTED = "unk__"  # how the symbols begin that shape inference invents


class ReasonAgainst(Protocol):
    """Why no kernel can contain an operator, None where one can. `values` are its operands that are not constants."""

    def __call__(
        self, node: onnx.NodeProto, values: Mapping[str, Operand], constants: Mapping[str, np.ndarray], opset: int
    ) -> str | None: ...


def any_standard_operator(
    node: onnx.NodeProto, values: Mapping[str, Operand], constants: Mapping[str, np.ndarray], opset: int
) -> str | None:
    """For functions without kernels: whatever has a meaning in every runtime may be in an area."""
    return None if node.domain == "" else f"{qualified(node.op_type, node.domain)} is not a standard operator"


class Contents:
    """Asks about the operators of one model, each once.

    `allowed` are the names of operators that may be in clusters at all.
    """

    def __init__(self, allowed: frozenset[str], reason_against: ReasonAgainst) -> None:
        self._allowed = allowed
        self._reason_against = reason_against
        self._known: dict[Node, str | None] = {}

    def reason(self, node: Node) -> str | None:
        """Why this operator cannot be in an area; None where it can."""
        if node not in self._known:
            self._known[node] = self._find_reason(node)
        return self._known[node]

    def _find_reason(self, node: Node) -> str | None:
        name = qualified(node.op, node.domain)
        if name not in self._allowed:
            return f"{name} is not in the list of operators for clusters"
        if node.bodies or node.has_references or node.graph.in_function:
            return "it is in a function, or holds a subgraph"
        values: dict[str, Operand] = {}
        constants: dict[str, np.ndarray[Any, Any]] = {}
        for edge in edges_of(node):
            array = embedded(edge)
            operand = None if array is not None else operand_of(edge)
            if array is not None:
                constants[edge.name] = array
            elif operand is not None:
                values[edge.name] = operand
            else:
                return "an element type or a rank is unknown"
        return self._reason_against(named(node), values, constants, node.graph.opset)


def edges_of(node: Node) -> Iterator[Edge]:
    """What a node reads and writes, without what is omitted."""
    for edge in (*node.inputs, *node.outputs):
        if edge is not None:
            yield edge


def named(node: Node) -> onnx.NodeProto:
    """The proto of a node with the names that its operands have now, without its own name and origin."""
    proto = onnx.NodeProto(op_type=node.op, domain=node.domain, attribute=node.proto.attribute)
    proto.input.extend("" if value is None else value.name for value in node.inputs)
    proto.output.extend("" if value is None else value.name for value in node.outputs)
    return proto


def embedded(edge: Edge) -> np.ndarray[Any, Any] | None:
    """The elements of a constant that becomes part of the kernel: one number, or a small table of integers.

    Larger ones are inputs, so that layers that differ in their weights alone share one kernel.
    """
    shape = edge.shape if edge.is_constant else None
    if shape is None or len(shape) > 1:
        is_single = shape is not None and all(dim == 1 for dim in shape)
        return edge.constant() if is_single else None
    size = shape[0] if shape else 1
    is_table = edge.dtype is not None and edge.dtype.kind in "iu" and isinstance(size, int) and size <= _MOST_EMBEDDED
    return edge.constant() if size == 1 or is_table else None


def operand_of(edge: Edge) -> Operand | None:
    """A value as kernels see it; None where its element type or its rank is unknown."""
    shape, elem_type = edge.shape, edge.elem_type
    if shape is None or not elem_type:
        return None
    return Operand(edge.name, elem_type, tuple(symbol(edge, axis, dim) for axis, dim in enumerate(shape)))


def symbol(edge: Edge, axis: int, dim: int | str | None) -> int | str:
    """A dimension. One that is unknown gets a symbol of its own, an invented symbol one that outlives inference."""
    if dim is None:
        return f"{edge.name}[{axis}]"
    return f"size {dim.removeprefix(_INVENTED)}" if isinstance(dim, str) and dim.startswith(_INVENTED) else dim
