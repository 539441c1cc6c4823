"""Elementwise operators of values that are all transposed: they can be computed first, and
transposed together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.same_everywhere import is_same_everywhere
from fusionc.passes._shared.constants import array_of, shape_of, would_double
from fusionc.passes._shared.elementwise_operators import is_of_one, is_of_several
from fusionc.passes._shared.transpose_and_reshape import order_of, transposed
from fusionc.rewrite import Match, Result, Tape

_MOST = 64  # operators that one match looks through
Chosen = Callable[[Collection[Node]], bool]  # whether a pass takes these elementwise operators


@dataclass
class _Sunk:
    """Elementwise operators, and the Transposes of one and the same order that they begin with."""

    graph: Graph
    order: list[int] = field(default_factory=list)
    leaves: dict[Edge, Node] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    fixed: dict[Edge, None] = field(default_factory=dict)  # what is broadcast

    def add(self, value: Edge | None) -> bool:
        """Take in everything that a value is computed from; False where something else than a
        Transpose begins it.
        """
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
        """Take in what makes a value, and all in front of it."""
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
        """Whether what is broadcast can be turned round."""
        return bool(self.order and self.nodes) and all(map(self._can_turn, self.fixed))

    def _can_turn(self, value: Edge) -> bool:
        shape = shape_of(value)
        if shape is None or len(shape) > len(self.order):
            return False
        return _is_one(value) or not would_double(value, array_of(value).size)

    def private(self) -> list[Node]:
        """The Transposes that nobody else uses."""
        inside = self.nodes
        return [
            n
            for v, n in self.leaves.items()
            if not v.is_output and all(u in inside for u in v.outputs)
        ]

    def turned(self, value: Edge, new: Tape) -> Edge:
        """What is broadcast, as it lies beside the inputs of the Transposes."""
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
    return is_of_one(node) or is_of_several(node) or _quantizes(node)


def _operands(node: Node) -> tuple[Edge | None, ...]:
    """The inputs of which an elementwise operator computes each element from that at the same
    place.
    """
    return node.inputs if is_of_several(node) else node.inputs[:1]


def _quantizes(node: Node) -> bool:
    """Whether a node quantizes or the reverse, with one scale for all elements or for all at a
    place of an axis.

    Below opset 13 it names no axis, and onnxruntime takes several scales along axis 1.
    """
    shape = shape_of(node.inputs[1]) if node.is_op("QuantizeLinear", "DequantizeLinear") else None
    is_plain = not node.has_references and not node.attr("block_size")
    is_one = shape in ((), (1,))
    return (
        is_plain
        and shape is not None
        and (is_one or (len(shape) == 1 and node.attr("axis") is not None))
    )


def _axis(node: Node, order: Sequence[int]) -> dict[str, int]:
    """Of a node with a scale for each place of an axis, where that goes; a constant of fewer axes
    has the last ones.
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
    """Whether an elementwise operator computes its elements in the same way wherever they lie."""
    return all(
        made is not None and is_same_everywhere(node.op, made.elem_type) for made in node.outputs
    )


def between_transposes(graph: Graph, is_wanted: Chosen) -> Iterator[Match]:
    """Transposes of what elementwise operators, all of which are asked for, make of Transposes."""
    for root in graph.of_operator("Transpose"):
        if not root.is_in_graph or root.has_references:
            continue
        sunk = _Sunk(graph)
        then = order_of(root)
        if (
            sunk.add(root.inputs[0])
            and sunk.is_movable
            and len(then) == len(sunk.order)
            and is_wanted(sunk.nodes)
        ):
            order = [sunk.order[axis] for axis in then]
            if sunk.private() or order == sorted(order):
                yield _match(graph, root, sunk, order)


def of_transposes(graph: Graph, is_wanted: Chosen) -> Iterator[Match]:
    """Elementwise operators of several values that are all transposed, and used nowhere else."""
    for root in graph.ordered() if len(graph.of_operator("Transpose")) > 1 else ():
        if root.is_in_graph and is_of_several(root):
            sunk = _Sunk(graph)
            is_found = sunk.add(root.outputs[0]) and sunk.is_movable and len(sunk.private()) > 1
            if is_found and is_wanted(sunk.nodes):
                yield _match(graph, root, sunk, sunk.order)


def sink(m: Match, new: Tape) -> Result:
    """The elementwise operators of what the Transposes take, and one Transpose behind them or
    none.
    """
    made = {value: node.inputs[0] for value, node in m.sunk.leaves.items()}
    made.update({value: m.sunk.turned(value, new) for value in m.sunk.fixed})
    nodes = sorted(m.sunk.nodes, key=lambda n: n.position)
    for node in nodes:
        inputs = list(node.inputs)
        for position, operand in enumerate(_operands(node)):
            inputs[position] = made[operand]
        made[node.outputs[0]] = new.node(node.op, inputs, like=node, **_axis(node, m.sunk.order))
    return transposed(new, made[nodes[-1].outputs[0]], m.then)
