"""Find out whether a value reaches an operator whose result depends on the last bit of its input,
such as ArgMax or Floor. Such an operator decides by this bit.

Only paths of operators that move elements, and of arithmetic, count. Along them, a number that is
exactly on the limit between two decisions, such as an integer before Floor, stays on the limit. A
matrix product, a convolution, a normalization or a Softmax ends the path, because its results are
on a limit only by chance. Paths lead into and out of subgraphs and functions.

All values are marked at once, backwards from the deciding operators, when a pass asks for the first
time. The replacement of a value has the same name, and therefore the same mark.
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
    CONTINUOUS_ELSEWHERE,
    JUMPS,
    KEEPS_TINY,
    KEEPS_ZEROS,
    SIGN_DECIDES,
    STRAIGHT,
    SUMS,
    TURNS,
    ZERO_DECIDES,
    is_real,
)

# the kinds of decisions
JUMP = "jump"  # the last bit of the value decides
CANCELS = "cancels"  # the value is a summand; the sign of the sum decides if the sum is near 0
ZERO = "zero"  # the sign of the value decides if the value is near 0
SIGN = "sign"  # the sign of a zero decides if the value is 0
TINY = "tiny"  # the digits of the value decide if it is near 0: a 0 gives another result
TURN = "turn"  # the value is part of an angle, which rounding may turn if the value is near 0
# the operators that a path of each kind may contain
_PATH_OPERATORS = {
    JUMP: CONTINUOUS,
    CANCELS: STRAIGHT,
    ZERO: STRAIGHT,
    SIGN: KEEPS_ZEROS,
    TINY: KEEPS_TINY,
    TURN: CONTINUOUS,
}
# the operators that make a decision of each kind
_DECIDING = {
    JUMP: JUMPS,
    ZERO: SIGN_DECIDES,
    TINY: SIGN_DECIDES,
    SIGN: ZERO_DECIDES,
    TURN: TURNS,
}


@dataclass
class _Marks:
    """The marked values: those by which a later operator decides."""

    end: int  # values with this serial number or a larger one are newer than the marks
    # the deciding operator, by kind of decision, graph and name of the value
    deciders: dict[tuple[str, Graph, str], str] = field(default_factory=dict)


_MARKS: WeakKeyDictionary[Model, _Marks] = WeakKeyDictionary()


def forget(model: Model) -> None:
    """Discard the marks when another pass begins: rewrites may have created new paths to deciding
    operators.
    """
    _MARKS.pop(model, None)


def decider_of(value: Edge, kind: str = JUMP) -> str:
    """The operator that makes this kind of decision by this value. "" if no operator does."""
    model = value.graph.model
    if model not in _MARKS:
        _MARKS[model] = _marks_of(model)
    marks = _MARKS[model]
    pending = [(kind, value)]
    seen = set(pending)
    while pending:  # paths are followed only along values that are newer than the marks
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
    """The outputs of a node, each with the kinds of decisions that continue a decision of `kind`
    about the node's inputs.
    """
    kinds = [other for other in _PATH_OPERATORS if kind in _kinds_read(node, other)]
    yield from ((other, output) for other in kinds for output in node.outputs if output is not None)


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
        producer = value.producer
        for earlier in () if producer is None else _kinds_read(producer, kind):
            for source in () if producer is None else producer.inputs:
                reach(earlier, source, op)
    return marks


def _deciding_nodes(model: Model) -> Iterator[tuple[str, Node]]:
    """All nodes that may decide, each with the kind of its decision."""
    for graph in model.graphs:
        for operator, nodes in graph.by_operator.items():
            is_cast = operator in (("", "Cast"), ("", "CastLike"))
            kinds = [kind for kind, deciding in _DECIDING.items() if operator in deciding]
            kinds += [JUMP] if is_cast else []
            yield from ((kind, node) for kind in kinds for node in nodes)


def _decides(node: Node, value: Edge, kind: str) -> bool:
    """Whether a node makes this kind of decision by a value that it reads."""
    places: tuple[int, ...] | None = ()
    if kind in (ZERO, TINY):
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
    """Whether a node is a Pow that is smooth at 0: its exponents are 1, 2, 3, …"""
    if node.op != "Pow" or node.inputs[1] is None:
        return False
    exponent = node.inputs[1].constant()
    return exponent is not None and bool((exponent >= 1).all() and not (exponent % 1).any())


def _is_product(node: Node) -> bool:
    """Whether a node is a Pow without division: its exponents are 0 or more."""
    exponent = (
        node.inputs[1].constant() if node.op == "Pow" and node.inputs[1] is not None else None
    )
    return exponent is not None and bool((exponent >= 0).all())


def _cuts_off(node: Node) -> bool:
    """Whether a node casts to a type without fractions, such as integers."""
    if not node.is_op("Cast", "CastLike") or node.outputs[0] is None:
        return False
    to = node.attr("to") if node.op == "Cast" else node.outputs[0].elem_type
    return not isinstance(to, int) or not is_real(to) or to == TensorProto.UNDEFINED


def _kinds_read(node: Node, kind: str) -> tuple[str, ...]:
    """The kinds of decisions about the inputs of a node that follow from a decision of `kind`
    about its outputs.
    """
    if node.operator in CONTINUOUS_ELSEWHERE:
        return (kind,) if kind in (JUMP, TURN) else ()
    if node.domain != "" or _cuts_off(node) or node.op not in _PATH_OPERATORS[kind]:
        return ()
    return _kinds_of_terms(node, kind) if node.op in SUMS else (kind,)


def _kinds_of_terms(total: Node, kind: str) -> tuple[str, ...]:
    """The kinds of decisions about the terms of a sum that follow from one about the sum."""
    if kind == TINY:
        return () if any(map(_is_without_zeros, total.inputs)) else (TINY,)
    if kind != ZERO:
        return (kind,)
    is_safe = total.op != "Sub" and all(map(is_never_negative, total.inputs))
    return (ZERO,) if is_safe else (ZERO, CANCELS)


def _is_without_zeros(value: Edge | None) -> bool:
    """Whether a value is a constant without zeros, such as the epsilon of a normalization."""
    array = None if value is None else value.constant()
    return array is not None and bool(array.all())
