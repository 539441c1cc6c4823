from collections.abc import Iterator
from typing import Any

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import COMMUTATIVE, is_pure
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape

# operators that take no more time than a copy of their result
_CHEAP = names_with(Trait.RESHAPES, Trait.READS_SHAPE) | {"Identity"}
_ORDERED = {"Max", "Min"}  # the order of their operands matters for −0 and +0


def _operation(node: Node) -> tuple[Any, ...]:
    """A key that is equal for nodes with equal operators and attributes.

    Nodes with different numbers of outputs have different keys. The number determines how a Split
    without sizes cuts its input, and whether an old BatchNormalization is in training mode.
    """
    attributes = sorted(
        (a.name, a.SerializeToString(deterministic=True)) for a in node.proto.attribute
    )
    outputs = tuple(value is not None for value in node.outputs)
    return (node.domain, node.op, node.proto.overload, tuple(attributes), outputs)


def _operands(node: Node) -> tuple[int, ...]:
    """A key that is equal for nodes of one operator with equal inputs."""
    inputs = [id(value) if value is not None else 0 for value in node.inputs]
    while inputs and not inputs[-1]:
        inputs.pop()
    if node.domain == "" and node.op in COMMUTATIVE - _ORDERED and len(inputs) == 2:
        inputs.sort()
    return tuple(inputs)


def _reason_to_stay(node: Node) -> str:
    """Why a node is not compared with others; "" if it is."""
    if node.is_op("Constant"):
        return "RemoveSameConstPass merges constants, once they are initializers"
    if node.bodies:
        return "it has a subgraph"
    return "" if is_pure(node) else "it is random, stateful or custom"


def _find(graph: Graph) -> Iterator[Match | Miss]:
    first: dict[tuple[Any, ...], dict[tuple[int, ...], Node]] = {}
    # Producers come first: once they are merged, nodes that read their results have equal inputs.
    for node in graph.ordered():
        if reason := _reason_to_stay(node):
            yield Miss(node, reason)
            continue
        alike = first.setdefault(_operation(node), {})
        kept = alike.setdefault(_operands(node), node)
        if kept is not node:
            outputs, equal = ([o for o in n.outputs if o is not None] for n in (node, kept))
            yield Match(graph, (node,), outputs, {"equal": equal})
        elif len(alike) > 1:
            yield Miss(node, "no node before it has the same operator and the same inputs")
        else:
            yield Miss(node, "no node before it has the same operator, attributes and outputs")


class CommonSubexpressionEliminationPass(Pass):
    """Two nodes that compute the same value become one.

    before   f(x) twice, with equal operators, attributes and inputs (the inputs of commutative
             operators in either order)
    after    f(x) once, used twice; if both are graph outputs, one becomes an Identity of the other
    refuses  nodes with more than one pair of equal results that are both graph outputs; nodes with
             one such pair if their operator takes no more time than the Identity
    never    random or stateful operators, custom operators, operators with subgraphs; constants,
             which RemoveSameConstPass merges
    algebra  equal functions of equal values are equal, bit by bit
    source   CANN's CommonSubexpressionEliminationPass
    """

    patterns = (Pattern("CommonSubexpression", find=_find),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        equal: list[Edge] = m.equal
        needs_identity = [
            old.is_output and value.is_output for old, value in zip(m.outputs, equal, strict=True)
        ]
        if sum(needs_identity) != 1 or m.nodes[0].is_op(*_CHEAP):
            return equal
        return [
            new.Identity(value) if is_needed else value
            for value, is_needed in zip(equal, needs_identity, strict=True)
        ]
