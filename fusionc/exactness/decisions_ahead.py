"""Does a value go straight into an operator that decides by its last bit?

Straight means through what moves elements and through arithmetic: there a number on the limit
between two results stays on a limit. A product of matrices, a convolution, a normalization or a
Softmax ends the way: behind these nothing lies on a limit but by chance. The way leads into
subgraphs and functions and out of them.

All values are marked at once, backwards from the operators that decide, when the first question of
a pass is asked. What a rewrite puts in a value's place has the value's name, and with it the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from onnx import TensorProto

from fusionc.exactness.borders import values_in_front
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
CANCELS = "cancels"  # what is left of the value in a sum decides by its sign
ZERO = "zero"  # where the value is near 0, its sign decides
SIGN = "sign"  # where the value is 0, the sign of that zero decides
TURN = "turn"  # where the value is 0, its last bit may turn an angle round
# through these
_HANDED_ON = {
    JUMP: CONTINUOUS,
    CANCELS: STRAIGHT,
    ZERO: STRAIGHT,
    SIGN: KEEPS_ZEROS,
    TURN: CONTINUOUS,
}


@dataclass
class _Marks:
    """The operators that decide, by kind, graph and name of the values that go into them."""

    end: int  # of the serial numbers of values that were there
    deciders: dict[tuple[str, Graph, str], str] = field(default_factory=dict)


_MARKS: WeakKeyDictionary[Model, _Marks] = WeakKeyDictionary()


def forget(model: Model) -> None:
    """Another pass begins: a value may have come closer to an operator that decides."""
    _MARKS.pop(model, None)


def decider_of(value: Edge, kind: str = JUMP) -> str:
    """The operator that decides by this value, in this way; "" for none."""
    model = value.graph.model
    if model not in _MARKS:
        _MARKS[model] = _mark(model)
    marks = _MARKS[model]
    pending = [(kind, value)]
    seen = set(pending)
    while pending:  # only what was made since then is followed
        kind, value = pending.pop()
        if found := marks.deciders.get((kind, value.graph, value.name), ""):
            return found
        if value.serial < marks.end:
            continue
        for user in value.outputs:
            if _decides(user, value, kind):
                return user.op
            new = [reached for reached in _behind(user, kind) if reached not in seen]
            seen.update(new)
            pending += new
    return ""


def _behind(node: Node, kind: str) -> Iterator[tuple[str, Edge]]:
    """What a node makes, with each kind of decision by it that is a decision of this kind by what
    the node reads.
    """
    kinds = [other for other in _HANDED_ON if kind in _kinds_in_front(node, other)]
    yield from ((other, made) for other in kinds for made in node.outputs if made is not None)


def _mark(model: Model) -> _Marks:
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
        for front in values_in_front(value):
            reach(kind, front, op)
        maker = value.producer
        for earlier in () if maker is None else _kinds_in_front(maker, kind):
            for front in () if maker is None else maker.inputs:
                reach(earlier, front, op)
    return marks


def _deciding_nodes(model: Model) -> Iterator[tuple[str, Node]]:
    """All nodes that may decide, with the kinds in which they do."""
    for graph in model.graphs:
        for operator, nodes in graph.by_operator.items():
            is_cast = operator in (("", "Cast"), ("", "CastLike"))
            yield from ((JUMP, node) for node in nodes if is_cast or operator in JUMPS)
            yield from ((ZERO, node) for node in nodes if operator in SIGN_DECIDES)
            yield from ((SIGN, node) for node in nodes if operator in ZERO_DECIDES)
            yield from ((TURN, node) for node in nodes if operator in TURNS)


def _decides(node: Node, value: Edge, kind: str) -> bool:
    """Whether a node decides by a value that it reads, in this way."""
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
    """Whether a node is a power that goes smoothly through 0: with the exponent 1, 2, 3, …"""
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
    """Whether a node casts to a type that has no fractions."""
    if not node.is_op("Cast", "CastLike") or node.outputs[0] is None:
        return False
    to = node.attr("to") if node.op == "Cast" else node.outputs[0].elem_type
    return not isinstance(to, int) or not is_real(to) or to == TensorProto.UNDEFINED


def _kinds_in_front(node: Node, kind: str) -> tuple[str, ...]:
    """How what a node reads is decided by, where what it makes is decided by in this way."""
    if node.domain == MICROSOFT and node.op in CONTINUOUS_OF_MICROSOFT:
        return (kind,) if kind in (JUMP, TURN) else ()
    if node.domain != "" or _cuts_off(node) or node.op not in _HANDED_ON[kind]:
        return ()
    if kind == ZERO and node.op in SUMS:
        is_safe = node.op != "Sub" and all(map(is_never_negative, node.inputs))
        return (ZERO,) if is_safe else (ZERO, CANCELS)
    return (kind,)
