"""Does a value go straight into an operator that decides by its last bit?

Straight means through operators that move elements and through arithmetic: there a number on the
limit between two results stays on a limit. A product of matrices, a convolution, a normalization or
a Softmax ends the way: their results lie on a limit only by chance. The way leads into subgraphs
and functions and out of them.

All values are marked at once, backwards from the operators that decide, when a pass asks its first
question. The replacement of a value has the value's name, and so its mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from onnx import TensorProto

from fusionc.exactness.borders import values_across_border
from fusionc.exactness.signs import is_never_negative
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.operators.deciding_operators import (
    CONTINUOUS,
    CONTINUOUS_OF_MICROSOFT,
    JUMPS,
    KEEPS_ZEROS,
    SIGN_DECIDES,
    STRAIGHT,
    SUMS,
    TURNS,
    ZERO_DECIDES,
    is_real,
)
from fusionc.operators.domains import MICROSOFT

JUMP = "jump"  # the last bit decides
CANCELS = "cancels"  # the sign of the rest of the value in a sum decides
ZERO = "zero"  # if the value is near 0, its sign decides
SIGN = "sign"  # if the value is 0, the sign of that zero decides
TURN = "turn"  # if the value is 0, its last bit may turn an angle round
# the operators through which each kind of decision is handed on
_HANDED_ON = {
    JUMP: CONTINUOUS,
    CANCELS: STRAIGHT,
    ZERO: STRAIGHT,
    SIGN: KEEPS_ZEROS,
    TURN: CONTINUOUS,
}


@dataclass
class _Marks:
    """The values by which operators decide."""

    end: int  # values with serial numbers from here on are newer than the marks
    # the operator by kind of decision, graph and name of the value
    deciders: dict[tuple[str, Graph, str], str] = field(default_factory=dict)


_MARKS: WeakKeyDictionary[Model, _Marks] = WeakKeyDictionary()


def forget(model: Model) -> None:
    """Forget the marks when another pass begins: a value may have come closer to an operator that
    decides.
    """
    _MARKS.pop(model, None)


def decider_of(value: Edge, kind: str = JUMP) -> str:
    """The operator that decides by this value, by this kind of decision; "" for none."""
    model = value.graph.model
    if model not in _MARKS:
        _MARKS[model] = _marks_of(model)
    marks = _MARKS[model]
    pending = [(kind, value)]
    seen = set(pending)
    while pending:  # only values newer than the marks are followed
        kind, value = pending.pop()
        if decider := marks.deciders.get((kind, value.graph, value.name)):
            return decider
        if value.serial < marks.end:
            continue
        for user in value.outputs:
            if _decides(user, value, kind):
                return user.op
            new = [reached for reached in _decided_results(user, kind) if reached not in seen]
            seen.update(new)
            pending += new
    return ""


def _decided_results(node: Node, kind: str) -> Iterator[tuple[str, Edge]]:
    """The results of a node, with those kinds of decisions by them that are decisions of this kind
    by the inputs of the node.
    """
    kinds = [other for other in _HANDED_ON if kind in _kinds_read(node, other)]
    yield from ((other, made) for other in kinds for made in node.outputs if made is not None)


def _marks_of(model: Model) -> _Marks:
    marks = _Marks(next(model.serials))
    pending: list[tuple[str, Edge, str]] = []

    def reach(kind: str, value: Edge | None, op: str) -> None:
        if value is None or value.is_constant or (kind, value.graph, value.name) in marks.deciders:
            return
        if is_real(value.elem_type):
            marks.deciders[kind, value.graph, value.name] = op
            pending.append((kind, value, op))

    for kind, node in _deciding_nodes(model):
        for value in node.inputs:
            if value is not None and _decides(node, value, kind):
                reach(kind, value, node.op)
    while pending:
        kind, value, op = pending.pop()
        for source in values_across_border(value):
            reach(kind, source, op)
        maker = value.producer
        for earlier in () if maker is None else _kinds_read(maker, kind):
            for source in () if maker is None else maker.inputs:
                reach(earlier, source, op)
    return marks


def _deciding_nodes(model: Model) -> Iterator[tuple[str, Node]]:
    """All nodes that may decide, with the kinds of their decisions."""
    for graph in model.graphs:
        for operator, nodes in graph.by_operator.items():
            is_cast = operator in (("", "Cast"), ("", "CastLike"))
            yield from ((JUMP, node) for node in nodes if is_cast or operator in JUMPS)
            yield from ((ZERO, node) for node in nodes if operator in SIGN_DECIDES)
            yield from ((SIGN, node) for node in nodes if operator in ZERO_DECIDES)
            yield from ((TURN, node) for node in nodes if operator in TURNS)


def _decides(node: Node, value: Edge, kind: str) -> bool:
    """Whether a node decides by a value that it reads, by this kind of decision."""
    places: tuple[int, ...] | None = ()
    if kind == ZERO:
        places = () if _is_smooth(node) else SIGN_DECIDES.get(node.operator, ())
    elif kind == JUMP:
        places = (0,) if _cuts_off(node) else JUMPS.get(node.operator, ())
    elif kind == SIGN:
        places = () if _is_product(node) else ZERO_DECIDES.get(node.operator, ())
    elif kind == TURN:
        places = TURNS.get(node.operator, ())
    return any(
        read is value and (places is None or at in places) for at, read in enumerate(node.inputs)
    )


def _is_smooth(node: Node) -> bool:
    """Whether a node is a power that is smooth at 0: with the exponent 1, 2, 3, …"""
    if node.op != "Pow" or node.inputs[1] is None:
        return False
    exponent = node.inputs[1].constant()
    return exponent is not None and bool((exponent >= 1).all() and not (exponent % 1).any())


def _is_product(node: Node) -> bool:
    """Whether a node is a power that divides nothing: its exponents are 0 or more."""
    exponent = (
        node.inputs[1].constant() if node.op == "Pow" and node.inputs[1] is not None else None
    )
    return exponent is not None and bool((exponent >= 0).all())


def _cuts_off(node: Node) -> bool:
    """Whether a node casts to a type without fractions."""
    if not node.is_op("Cast", "CastLike") or node.outputs[0] is None:
        return False
    to = node.attr("to") if node.op == "Cast" else node.outputs[0].elem_type
    return not isinstance(to, int) or not is_real(to) or to == TensorProto.UNDEFINED


def _kinds_read(node: Node, kind: str) -> tuple[str, ...]:
    """The kinds of decisions by the inputs of a node that a decision of this kind by its results
    is.
    """
    if node.domain == MICROSOFT and node.op in CONTINUOUS_OF_MICROSOFT:
        return (kind,) if kind in (JUMP, TURN) else ()
    if node.domain != "" or _cuts_off(node) or node.op not in _HANDED_ON[kind]:
        return ()
    if kind == ZERO and node.op in SUMS:
        is_safe = node.op != "Sub" and all(map(is_never_negative, node.inputs))
        return (ZERO,) if is_safe else (ZERO, CANCELS)
    return (kind,)
