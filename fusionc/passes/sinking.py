"""Transposes that meet behind elementwise operators: T₂(f(T₁(a), T₁(b))) = T₂(T₁(f(a, b)))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes.elementwise import is_of_one, is_of_several
from fusionc.passes.moving import order_of
from fusionc.passes.weights import array_of, shape_of, would_double
from fusionc.rewrite import Match, Result, Tape

_MOST = 64  # operators that one match looks through


@dataclass
class _Sunk:
    """Elementwise operators, and the Transposes of one and the same order that they begin with."""

    graph: Graph
    order: list[int] = field(default_factory=list)
    leaves: dict[Edge, Node] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    fixed: dict[Edge, None] = field(default_factory=dict)  # what is broadcast

    def add(self, value: Edge | None) -> bool:
        """Take in everything that a value is computed from; False where something else than a Transpose begins it."""
        if value is None or len(self.nodes) > _MOST:
            return False
        node = value.producer
        if value.is_constant or _is_one(value):
            self.fixed[value] = None
            return True
        if node is None or node.graph is not self.graph:
            return False
        if node in self.nodes or value in self.leaves:
            return True
        if node.is_op("Transpose") and not node.has_references:
            order = order_of(node)
            self.leaves[value], self.order = node, self.order or order
            return bool(order) and order == self.order
        if not is_of_one(node) and not is_of_several(node):
            return False
        self.nodes[node] = None
        return all(map(self.add, node.inputs[:1] if is_of_one(node) else node.inputs))

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
        return [n for v, n in self.leaves.items() if not v.is_output and all(u in inside for u in v.outputs)]

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


def _match(graph: Graph, root: Node, sunk: _Sunk, then: list[int]) -> Match:
    nodes = [*dict.fromkeys([root, *sunk.nodes, *sunk.private()])]
    outputs = [value for value in root.outputs if value is not None]
    return Match(graph, nodes, outputs, {"sunk": sunk, "then": then})


def between_transposes(graph: Graph) -> Iterator[Match]:
    """Transposes of what elementwise operators make of Transposes."""
    for root in graph.of_operator("Transpose"):
        if not root.is_in_graph or root.has_references:
            continue
        sunk, then = _Sunk(graph), order_of(root)
        if sunk.add(root.inputs[0]) and sunk.is_movable and len(then) == len(sunk.order):
            order = [sunk.order[axis] for axis in then]
            if sunk.private() or order == sorted(order):
                yield _match(graph, root, sunk, order)


def of_transposes(graph: Graph) -> Iterator[Match]:
    """Elementwise operators of several values that are all transposed, and used nowhere else."""
    for root in graph.ordered() if len(graph.of_operator("Transpose")) > 1 else ():
        if root.is_in_graph and is_of_several(root):
            sunk = _Sunk(graph)
            if sunk.add(root.outputs[0]) and sunk.is_movable and len(sunk.private()) > 1:
                yield _match(graph, root, sunk, sunk.order)


def sink(m: Match, new: Tape) -> Result:
    """The elementwise operators of what the Transposes take, and one Transpose behind them or none."""
    made = {value: node.inputs[0] for value, node in m.sunk.leaves.items()}
    made.update({value: m.sunk.turned(value, new) for value in m.sunk.fixed})
    result = None
    for node in sorted(m.sunk.nodes, key=lambda n: n.position):
        inputs = list(node.inputs)
        for position in range(1 if is_of_one(node) else len(inputs)):
            inputs[position] = made[inputs[position]]
        result = made[node.outputs[0]] = new.node(node.op, inputs, like=node)
    return result if m.then == sorted(m.then) else new.Transpose(result, perm=m.then)
