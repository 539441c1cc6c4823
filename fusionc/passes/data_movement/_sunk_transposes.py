"""Move elementwise operators before the Transposes of their inputs, and transpose the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.same_everywhere import is_same_everywhere
from fusionc.passes._shared.constants import array_of, shape_of, would_double
from fusionc.passes._shared.elementwise_operators import (
    is_broadcasting_elementwise,
    is_unary_elementwise,
)
from fusionc.passes._shared.transpose_and_reshape import order_of, transposed
from fusionc.rewrite import Match, Result, Tape, find_each, refuse
from fusionc.rewrite.match import Find

_MAX_OPERATORS = 64  # the largest number of operators that one match examines
Accepts = Callable[[Collection[Node]], bool]  # whether a pass moves these elementwise operators


@dataclass
class _Region:
    """A region of elementwise operators whose inputs are results of Transposes that all have the
    same permutation, or values that are broadcast.
    """

    graph: Graph
    order: list[int] = field(default_factory=list)  # the permutation of every Transpose
    leaves: dict[Edge, Node] = field(default_factory=dict)  # transposed value → its Transpose
    nodes: dict[Node, None] = field(default_factory=dict)  # the elementwise operators
    fixed: dict[Edge, None] = field(default_factory=dict)  # values that are broadcast

    def add(self, value: Edge | None) -> bool:
        """Add all nodes that compute a value. False if these nodes do not begin with Transposes
        that all have the same permutation.
        """
        if value is None or len(self.nodes) > _MAX_OPERATORS:
            return False
        if value.is_constant or _has_one_element(value):
            self.fixed[value] = None
            return True
        node = value.producer
        if node is None or node.graph is not self.graph:
            return False
        return node in self.nodes or value in self.leaves or self._add_node(value, node)

    def _add_node(self, value: Edge, node: Node) -> bool:
        """Add the node that computes a value, and all nodes before it."""
        if node.is_op("Transpose") and not node.has_references:
            order = order_of(node)
            self.leaves[value] = node
            self.order = self.order or order
            return bool(order) and order == self.order
        if not _is_elementwise(node):
            return False
        self.nodes[node] = None
        return all(map(self.add, _operands(node)))

    @property
    def is_movable(self) -> bool:
        """Whether all broadcast values can be transposed back."""
        return bool(self.order and self.nodes) and all(map(self._can_transpose, self.fixed))

    def require(self, value: Edge | None, accepts: Accepts) -> None:
        """Add all nodes that compute a value. Refuses a region that cannot be moved."""
        if not self.add(value) or not self.order:
            refuse("the operators do not begin with Transposes that have the same permutation")
        if not self.nodes:
            refuse("the Transposes have no elementwise operator between them")
        if not self.is_movable:
            refuse("a broadcast value cannot be transposed back")
        if not accepts(self.nodes):
            refuse("the elementwise operators are those of another pass")

    def _can_transpose(self, value: Edge) -> bool:
        shape = shape_of(value)
        if shape is None or len(shape) > len(self.order):
            return False
        return _has_one_element(value) or not would_double(value, array_of(value).size)

    def private(self) -> list[Node]:
        """The Transposes whose results only the region uses."""
        inside = self.nodes
        return [
            n
            for v, n in self.leaves.items()
            if not v.is_output and all(u in inside for u in v.outputs)
        ]

    def transposed_back(self, value: Edge, new: Tape) -> Edge:
        """A broadcast value with its axes in the order before the Transposes."""
        if _has_one_element(value):
            return value
        array = array_of(value)
        full = array.reshape((1,) * (len(self.order) - array.ndim) + array.shape)
        return new.const(full.transpose(np.argsort(self.order)), like=value)


def _has_one_element(value: Edge) -> bool:
    """Whether a value has a single element."""
    shape = shape_of(value)
    return shape is not None and all(d == 1 for d in shape)


def _is_elementwise(node: Node) -> bool:
    return is_unary_elementwise(node) or is_broadcasting_elementwise(node) or _quantizes(node)


def _operands(node: Node) -> tuple[Edge | None, ...]:
    """The inputs that an elementwise operator reads element by element."""
    return node.inputs if is_broadcasting_elementwise(node) else node.inputs[:1]


def _quantizes(node: Node) -> bool:
    """Whether a node quantizes or dequantizes with a single scale, or with a scale for each index
    of an axis.

    Below opset 13, the operators have no axis attribute, and onnxruntime applies several scales
    along axis 1.
    """
    if not node.is_op("QuantizeLinear", "DequantizeLinear"):
        return False
    if node.has_references or node.attr("block_size"):
        return False
    shape = shape_of(node.inputs[1])
    if shape is None or len(shape) > 1:
        return False
    return shape in ((), (1,)) or node.attr("axis") is not None


def _axis(node: Node, order: Sequence[int]) -> dict[str, int]:
    """The new axis attribute of a node that has a scale for each index of an axis. Empty for other
    nodes.

    A constant of lower rank is aligned with the last axes.
    """
    axis = node.attr("axis") if _quantizes(node) else None
    # With one scale, the axis attribute has no effect.
    if axis is None or shape_of(node.inputs[1]) in ((), (1,)):
        return {}
    return {"axis": order[axis if axis < 0 else axis - len(shape_of(node.inputs[0]) or order)]}


def _match(graph: Graph, root: Node, region: _Region, order_after: list[int]) -> Match:
    nodes = [*dict.fromkeys([root, *region.nodes, *region.private()])]
    return Match(graph, nodes, root.outputs, {"sunk": region, "then": order_after})


def is_same(node: Node) -> bool:
    """Whether an elementwise operator computes an element in the same way at every position."""
    return all(
        value is not None and is_same_everywhere(node.op, value.elem_type) for value in node.outputs
    )


def between_transposes(accepts: Accepts) -> Find:
    """Transpose(f(Transpose(a), …)) for elementwise operators f that the pass accepts."""

    def find_at(root: Node) -> Match:
        region = _Region(root.graph)
        region.require(root.inputs[0], accepts)
        order_after = order_of(root)
        if len(order_after) != len(region.order):
            refuse("the ranks of the Transposes differ")
        order = [region.order[axis] for axis in order_after]
        if not region.private() and order != sorted(order):
            refuse("the number of Transposes would stay the same")
        return _match(root.graph, root, region, order)

    return find_each(find_at, "Transpose")


def joined_transposes(graph: Graph, accepts: Accepts) -> Iterator[Match]:
    """f(Transpose(a), Transpose(b), …) if only f uses the Transposes."""
    for root in graph.ordered() if len(graph.of_operator("Transpose")) > 1 else ():
        if root.is_in_graph and is_broadcasting_elementwise(root):
            region = _Region(graph)
            is_found = (
                region.add(root.outputs[0]) and region.is_movable and len(region.private()) > 1
            )
            if is_found and accepts(region.nodes):
                yield _match(graph, root, region, region.order)


def sink(m: Match, new: Tape) -> Result:
    """The elementwise operators without the Transposes before them, then at most one Transpose."""
    replaced = {value: node.inputs[0] for value, node in m.sunk.leaves.items()}
    replaced.update({value: m.sunk.transposed_back(value, new) for value in m.sunk.fixed})
    nodes = sorted(m.sunk.nodes, key=lambda n: n.position)
    for node in nodes:
        inputs = list(node.inputs)
        for position, operand in enumerate(_operands(node)):
            inputs[position] = replaced[operand]
        axis = _axis(node, m.sunk.order)
        replaced[node.outputs[0]] = new.node(node.op, inputs, like=node, **axis)
    return transposed(new, replaced[nodes[-1].outputs[0]], m.then)
