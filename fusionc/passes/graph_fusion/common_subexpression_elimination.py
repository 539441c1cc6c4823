from collections.abc import Iterator
from typing import Any

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import COMMUTATIVE, is_pure
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape


def _key(node: Node) -> tuple[Any, ...]:
    """Nodes with equal keys compute the same: operator, attributes, and the very same inputs."""
    attributes = sorted((a.name, a.SerializeToString(deterministic=True)) for a in node.proto.attribute)
    inputs = [id(value) if value is not None else 0 for value in node.inputs]
    if node.domain == "" and node.op in COMMUTATIVE and len(inputs) == 2:
        inputs.sort()
    return (node.domain, node.op, node.proto.overload, tuple(attributes), tuple(inputs))


def _find(graph: Graph) -> Iterator[Match]:
    first: dict[tuple[Any, ...], Node] = {}
    for node in graph.ordered():  # producers first: their merging makes the inputs of later nodes equal
        if node.bodies or node.is_op("Constant") or not is_pure(node):
            continue
        kept = first.setdefault(_key(node), node)
        if kept is node or len(kept.outputs) < len(node.outputs):
            continue
        pairs = [(mine, its) for mine, its in zip(node.outputs, kept.outputs, strict=False) if mine is not None]
        if all(its is not None for _, its in pairs):
            yield Match(graph, (node,), [mine for mine, _ in pairs], {"equal": [its for _, its in pairs]})


class CommonSubexpressionEliminationPass(Pass):
    """Two nodes that compute the same become one.

    before   f(x), f(x): equal operator, attributes and inputs (of commutative operators in either order)
    after    one f(x), used twice
    refuses  two graph outputs that would share one value
    never    random or stateful operators, custom operators, operators with subgraphs; constants are left to
             RemoveSameConstPass
    algebra  equal functions of equal values are equal, bit by bit
    source   CANN's CommonSubexpressionEliminationPass
    """

    patterns = (Pattern("CommonSubexpression", find=_find),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        equal: list[Edge] = m.equal
        return equal
