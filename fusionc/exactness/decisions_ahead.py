"""Find out whether a value reaches a deciding operator: one whose result depends on the last bit of
its input, such as ArgMax or Floor.

The result of a deciding operator changes at a limit: that of Floor changes at each integer. If a
rewrite rounds in another way, it matters only for numbers that are exactly on a limit. Such numbers
stay on a limit along a path of operators that only move elements or compute arithmetic, so the
module follows such paths, also into and out of subgraphs and functions. These operators end a path:

- a matrix product or convolution with trained weights, a normalization or a Softmax, because its
  results are on a limit only by chance. If all weights are 0, 1 or −1, a product only picks and
  adds elements, so the path continues.
- a sum with a positive epsilon, if the limit is 0.

All values are marked at once, backwards from the deciding operators, when a pass asks for the first
time. The replacement of a value has the same name, and therefore the same mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from onnx import TensorProto

from fusionc.exactness.borders import values_across_border
from fusionc.exactness.constant_factors import multiplies_much, picks_and_adds
from fusionc.exactness.signs import is_at_least_zero, is_positive, sums_squares
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.tensors import Array
from fusionc.operators.deciding_operators import (
    ADDS_ELEMENTS,
    CONTINUOUS,
    CONTINUOUS_ELSEWHERE,
    CURVED,
    JUMPS,
    KEEPS_TINY,
    KEEPS_ZEROS,
    LIMITED,
    NO_NEGATIVE,
    NORMALIZATIONS,
    PRODUCTS,
    QUANTIZERS,
    REDUCTIONS,
    SIGN_DECIDES,
    STRAIGHT,
    SUBTRACTS,
    SUMS,
    TURNS,
    VANISHING,
    ZERO_DECIDES,
    is_real,
)
from fusionc.operators.facts import Operator, Places

# The kinds of decisions: which property of a value determines the result of a later operator.
JUMP = "jump"  # the last bit
GRID = "grid"  # like JUMP, but the path has only moves, factors, limits and constant addends
STEP = "step"  # like GRID, but the deciding operator is a quantization, which rounds to a step
CANCELS = "cancels"  # the last bit, if the value is a term of a deciding sum that is near 0
ZERO = "zero"  # the sign, if the value is near 0
NEGATIVE = "negative"  # the sign, if the value is near 0: a negative number would lead to NaN
SIGN = "sign"  # the sign of a zero, if the value is 0
TINY = "tiny"  # the digits, if the value is near 0: a 0 would lead to another result
STEEP = "steep"  # a large rounding error, if a curved function, or one with limits, follows
TURN = "turn"  # the last bit, if the value is near 0 and part of an angle, which may then turn
# the operators that a path of each kind may contain
_PATH_OPERATORS = {
    JUMP: CONTINUOUS,
    GRID: STRAIGHT,
    STEP: STRAIGHT,
    CANCELS: STRAIGHT | REDUCTIONS,
    ZERO: STRAIGHT | KEEPS_TINY,
    NEGATIVE: STRAIGHT | KEEPS_ZEROS,
    SIGN: KEEPS_ZEROS,
    TINY: KEEPS_TINY | PRODUCTS | {op for _, op in VANISHING},
    STEEP: STRAIGHT,
    TURN: CONTINUOUS,
}
_HARD_SIGMOID = ("", "HardSigmoid")  # decides by the sign of its input if it is steep
# the operators that make a decision of each kind, and the inputs by which they decide
_DECIDING: dict[str, Mapping[Operator, Places]] = {
    JUMP: JUMPS,
    GRID: {op: places for op, places in JUMPS.items() if op not in QUANTIZERS},
    STEP: {op: places for op, places in JUMPS.items() if op in QUANTIZERS},
    CANCELS: SUBTRACTS,
    ZERO: SIGN_DECIDES | {_HARD_SIGMOID: (0,)},
    TINY: SIGN_DECIDES | dict.fromkeys(NORMALIZATIONS, (0,)),
    NEGATIVE: NO_NEGATIVE,
    SIGN: ZERO_DECIDES,
    STEEP: CURVED,
    TURN: TURNS,
}
_CASTS = frozenset({("", "Cast"), ("", "CastLike")})
# An approximated function, such as onnxruntime's Sigmoid, is off by up to 1e-7 near 0. Added
# constants above these limits hide that error; the second limit is for sums of squares.
_HIDES_DIGITS = 9e-4
_HIDES_DIGITS_OF_SQUARES = 9e-7
# the kinds whose paths may contain a product that only picks and adds elements
_OF_PRODUCTS = frozenset({JUMP, GRID, STEP, CANCELS, ZERO, STEEP})


@dataclass
class _Marks:
    """The marked values: those that reach a deciding operator."""

    end: int  # values with this serial number or a larger one are newer than the marks
    # kind of decision, graph and name of the value → name of the deciding operator
    deciders: dict[tuple[str, Graph, str], str] = field(default_factory=dict)


_MARKS: WeakKeyDictionary[Model, _Marks] = WeakKeyDictionary()


def forget(model: Model) -> None:
    """Discard the marks when another pass begins: rewrites may have created new paths to deciding
    operators.
    """
    _MARKS.pop(model, None)


def decider_of(value: Edge, kind: str = JUMP) -> str:
    """The name of a later operator that makes this kind of decision by this value; "" if no
    operator does.
    """
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
    """Pairs of a kind and an output of a node: if a later operator makes this kind of decision by
    the output, it makes a decision of `kind` by the node's inputs.
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
            kinds = [kind for kind, deciding in _DECIDING.items() if operator in deciding]
            kinds += [JUMP, GRID, SIGN] if operator in _CASTS else []
            yield from ((kind, node) for kind in kinds for node in nodes)


def _decides(node: Node, value: Edge, kind: str) -> bool:
    """Whether a node makes this kind of decision by a value that it reads."""
    places = _DECIDING[kind].get(node.operator, ())
    if node.operator in _CASTS:
        places = (0,) if _is_decided_by_cast(node, kind) else ()
    elif _is_harmless_power(node, kind) or _is_flat(node, kind) or _has_large_epsilon(node):
        places = ()
    return any(
        read is value and (places is None or at in places) for at, read in enumerate(node.inputs)
    )


def _is_harmless_power(node: Node, kind: str) -> bool:
    """Whether a node is a Pow whose constant exponents exclude this kind of decision: for SIGN,
    exponents that are not negative; for NEGATIVE, exponents that are whole numbers; for ZERO and
    TINY, the exponents 1, 2, 3, …, with which Pow is smooth at 0.
    """
    exponent = _exponent(node) if node.op == "Pow" else None
    if exponent is None:
        return False
    if kind == SIGN:
        return bool((exponent >= 0).all())
    if kind == NEGATIVE:
        return not (exponent % 1).any()
    return kind in (ZERO, TINY) and bool((exponent >= 1).all() and not (exponent % 1).any())


def _is_flat(node: Node, kind: str) -> bool:
    """Whether the kind is ZERO and a node is a HardSigmoid, which rises too slowly to decide."""
    return kind == ZERO and node.operator == _HARD_SIGMOID and not multiplies_much(node)


def _has_large_epsilon(node: Node) -> bool:
    """Whether a node is a normalization that does not amplify the rounding of tiny numbers."""
    is_norm = node.operator in NORMALIZATIONS
    return is_norm and node.attr("epsilon", 0.0) > _HIDES_DIGITS_OF_SQUARES


def _exponent(power: Node) -> Array | None:
    return power.inputs[1].constant() if power.inputs[1] is not None else None


def _is_decided_by_cast(node: Node, kind: str) -> bool:
    """Whether a Cast makes this kind of decision. A Cast to integers decides by the fraction of a
    number. A Cast to text decides by all digits of a number, and by the sign of a zero.
    """
    if kind == SIGN:
        return _cast_type(node) == TensorProto.STRING
    return kind in (JUMP, GRID) and _cuts_off(node)


def _cast_type(node: Node) -> int:
    """The type that a Cast or CastLike casts to; UNDEFINED if it is unknown."""
    if node.outputs[0] is None:
        return TensorProto.FLOAT
    to = node.attr("to") if node.op == "Cast" else node.outputs[0].elem_type
    return to if isinstance(to, int) else TensorProto.UNDEFINED


def _cuts_off(node: Node) -> bool:
    """Whether a node is a Cast to a type that is not floating-point, or to an unknown type."""
    if node.operator not in _CASTS:
        return False
    to = _cast_type(node)
    return not is_real(to) or to == TensorProto.UNDEFINED


def _kinds_read(node: Node, kind: str) -> tuple[str, ...]:
    """The kinds of decisions that a later operator makes by the inputs of a node if it makes a
    decision of `kind` by the outputs. Empty if the node ends the path.
    """
    if node.domain != "" and node.op not in PRODUCTS:
        is_continuous = node.operator in CONTINUOUS_ELSEWHERE and kind in (JUMP, TURN)
        return (kind,) if is_continuous else ()
    if _cuts_off(node) or not _continues(node, kind) or _is_away_from_limit(node, kind):
        return ()
    return _continued(node, kind)


def _continued(node: Node, kind: str) -> tuple[str, ...]:
    """The same as `_kinds_read` for a node that does not end the path."""
    if kind == TINY and node.operator in VANISHING:
        return (JUMP,)  # the last bit decides whether the result is 0 or a small number
    if kind == STEEP and multiplies_much(node):
        return (STEEP, ZERO)
    return (ZERO, CANCELS) if kind == ZERO and _may_cancel(node) else (kind,)


def _continues(node: Node, kind: str) -> bool:
    """Whether a path to a decision of this kind continues through a node."""
    if node.op in PRODUCTS and kind in _OF_PRODUCTS:
        return picks_and_adds(node)
    if node.op == "Pow" and kind in (ZERO, TINY):
        return _is_zero_at_zero(node)
    if node.op in SUMS and kind in (GRID, STEP):
        return len({v for v in node.inputs if v is not None and not v.is_constant}) == 1
    return node.op in _PATH_OPERATORS[kind]


def _is_zero_at_zero(power: Node) -> bool:
    """Whether all exponents of a Pow are known to be positive."""
    exponent = _exponent(power)
    return exponent is not None and bool((exponent > 0).all())


def _may_cancel(node: Node) -> bool:
    """Whether a node adds elements that may have different signs."""
    if node.op in PRODUCTS or node.op in ("BatchNormalization", "Sub"):
        return True
    return node.op in SUMS | ADDS_ELEMENTS and not all(
        map(is_at_least_zero, node.inputs[: _terms(node)])
    )


def _terms(node: Node) -> int | None:
    """The terms of a sum are the first inputs of a node: their number, or None for all inputs."""
    return None if node.op in SUMS else 1


def _is_away_from_limit(node: Node, kind: str) -> bool:
    """Whether a constant, such as the epsilon of a normalization, keeps the result of a node away
    from 0, so that no decision of the kinds ZERO and TINY follows; for NEGATIVE, whether the result
    cannot be negative.

    For TINY, one term without zeros is enough, because all other terms of the sum are near 0.
    """
    if kind == NEGATIVE:
        return is_at_least_zero(node.outputs[0])
    if kind not in (ZERO, TINY):
        return False
    if kind == ZERO:
        return node.op in SUMS | LIMITED and is_positive(node.outputs[0])
    is_square = any(map(sums_squares, node.inputs))
    limit = _HIDES_DIGITS_OF_SQUARES if is_square else _HIDES_DIGITS
    if node.op in LIMITED:
        return is_positive(node.outputs[0], limit)
    terms = node.inputs if node.op in SUMS else node.inputs[2:] if node.op in PRODUCTS else []
    return any(_hides_digits(value, limit) for value in terms)


def _hides_digits(value: Edge | None, limit: float) -> bool:
    """Whether a value is a number above the limit, such as an epsilon, or a constant of several
    elements without zeros, such as a bias.
    """
    array = None if value is None else value.constant()
    if array is None or array.dtype.kind != "f":
        return False
    return bool(array.all() if array.size > 1 else (np.abs(array) > limit).all())
