"""Elementwise operators whose inputs are all transposed: compute first, then transpose once."""

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

_MOST = 64  # operators that one match looks through
Accepts = Callable[[Collection[Node]], bool]  # whether a pass takes these elementwise operators


@dataclass
class _Sunk:
    """A region of elementwise operators that begins with Transposes, all of the same order."""

    graph: Graph
    order: list[int] = field(default_factory=list)  # of axes, of every Transpose
    leaves: dict[Edge, Node] = field(default_factory=dict)  # transposed value → its Transpose
    nodes: dict[Node, None] = field(default_factory=dict)  # the elementwise operators
    fixed: dict[Edge, None] = field(default_factory=dict)  # values that are broadcast

    def add(self, value: Edge | None) -> bool:
        """Take in everything that computes a value; False if it does not begin with Transposes."""
        if value is None or len(self.nodes) > _MOST:
            return False
        if value.is_constant or _is_one(value):
            self.fixed[value] = None
            return True
        node = value.producer
        if node is None or node.graph is not self.graph:
            return False
        return node in self.nodes or value in self.leaves or self._add_node(value, node)

    def _add_node(self, value: Edge, node: Node) -> bool:
        """Take in the node that computes a value, and everything before it."""
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
        """Whether the broadcast values can be transposed back."""
        return bool(self.order and self.nodes) and all(map(self._can_turn, self.fixed))

    def require(self, value: Edge | None, is_wanted: Accepts) -> None:
        """Take in everything that computes a value. Refuses what a pass does not move."""
        if not self.add(value) or not self.order:
            refuse("the operators do not begin with Transposes of one order")
        if not self.nodes:
            refuse("there is no elementwise operator between the Transposes")
        if not self.is_movable:
            refuse("a broadcast value cannot be transposed back")
        if not is_wanted(self.nodes):
            refuse("the elementwise operators are those of another pass")

    def _can_turn(self, value: Edge) -> bool:
        shape = shape_of(value)
        if shape is None or len(shape) > len(self.order):
            return False
        return _is_one(value) or not would_double(value, array_of(value).size)

    def private(self) -> list[Node]:
        """The Transposes that are not used outside."""
        inside = self.nodes
        return [
            n
            for v, n in self.leaves.items()
            if not v.is_output and all(u in inside for u in v.outputs)
        ]

    def transposed_back(self, value: Edge, new: Tape) -> Edge:
        """A broadcast value in the order of axes that the inputs of the Transposes have."""
        if _is_one(value):
            return value
        array = array_of(value)
        full = array.reshape((1,) * (len(self.order) - array.ndim) + array.shape)
        return new.const(full.transpose(np.argsort(self.order)), like=value)


def _is_one(value: Edge) -> bool:
    """Whether a value has one element."""
    shape = shape_of(value)
    return shape is not None and all(d == 1 for d in shape)


def _is_elementwise(node: Node) -> bool:
    return is_unary_elementwise(node) or is_broadcasting_elementwise(node) or _quantizes(node)


def _operands(node: Node) -> tuple[Edge | None, ...]:
    """The inputs that an elementwise operator reads element by element."""
    return node.inputs if is_broadcasting_elementwise(node) else node.inputs[:1]


def _quantizes(node: Node) -> bool:
    """Whether a node quantizes or dequantizes with one scale, or with one per index of an axis.

    Below opset 13 it has no axis attribute, and onnxruntime takes several scales along axis 1.
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
    """The new axis attribute of a node with one scale per index of an axis; else no attribute.

    A constant of fewer axes has the last ones.
    """
    axis = node.attr("axis") if _quantizes(node) else None
    # with one scale, any axis may be written
    if axis is None or shape_of(node.inputs[1]) in ((), (1,)):
        return {}
    return {"axis": order[axis if axis < 0 else axis - len(shape_of(node.inputs[0]) or order)]}


def _match(graph: Graph, root: Node, sunk: _Sunk, then: list[int]) -> Match:
    nodes = [*dict.fromkeys([root, *sunk.nodes, *sunk.private()])]
    return Match(graph, nodes, root.outputs, {"sunk": sunk, "then": then})


def is_same(node: Node) -> bool:
    """Whether an elementwise operator computes an element in the same way at every position."""
    return all(
        made is not None and is_same_everywhere(node.op, made.elem_type) for made in node.outputs
    )


def between_transposes(is_wanted: Accepts) -> Find:
    """Transpose(f(Transpose(a), …)) for the elementwise operators f that the pass wants."""

    def find_at(root: Node) -> Match:
        sunk = _Sunk(root.graph)
        sunk.require(root.inputs[0], is_wanted)
        then = order_of(root)
        if len(then) != len(sunk.order):
            refuse("the ranks of the Transposes differ")
        order = [sunk.order[axis] for axis in then]
        if not sunk.private() and order != sorted(order):
            refuse("as many Transposes would be needed")
        return _match(root.graph, root, sunk, order)

    return find_each(find_at, "Transpose")


def joined_transposes(graph: Graph, is_wanted: Accepts) -> Iterator[Match]:
    """f(Transpose(a), Transpose(b), …) where the Transposes are used nowhere else."""
    for root in graph.ordered() if len(graph.of_operator("Transpose")) > 1 else ():
        if root.is_in_graph and is_broadcasting_elementwise(root):
            sunk = _Sunk(graph)
            is_found = sunk.add(root.outputs[0]) and sunk.is_movable and len(sunk.private()) > 1
            if is_found and is_wanted(sunk.nodes):
                yield _match(graph, root, sunk, sunk.order)


def sink(m: Match, new: Tape) -> Result:
    """The elementwise operators before the Transposes, and at most one Transpose after them."""
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
