"""Attention that is written out: its formula, and what it captured."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze, transposed
from fusionc.passes.attention._heads import batch_of, dimensions, heads_of, producer_of
from fusionc.passes.attention._masks import ADDING, is_one_number, parts_of
from fusionc.rewrite import Match, Tape, const, either, keep, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.elements import dimension
from fusionc.shapes.equality import same_after_reshape

q = var("q")
k = var("k")
v = var("v")
mask = var("mask")
_MOST_PARTS = 100  # of a mask are looked at
# of the scores, to a wider type, and of the weights, back
_CASTS = ("widened", "widened_late", "narrowed")
# beyond it and its reciprocal, the place where the scale is applied may decide what overflows
_LARGEST_SCALE = 2.0**12
_RANK = "the rank is unknown or not 4"
_NOT_TRANSPOSED = "the key is not known to be transposed"


def _scaled(formula: Formula, name: str) -> Formula:
    """The formula, or a constant times it, or it divided by a constant."""
    return either(formula * const(name), formula / const(f"{name}_divisor"), formula)


def _cast(formula: Formula, name: str, is_wanted: bool) -> Formula:
    """The formula; if `is_wanted`, also a Cast of it."""
    return either(op.Cast(formula, _as=name), formula) if is_wanted else formula


def scores_of(key: Formula, casts: bool = False) -> Formula:
    """q·kᵀ·scale, with the scale on q, on k, on both or on the product.

    `casts`: also with a Cast of the product, or of the scaled product.
    """
    flat = op.Reshape(_scaled(key, "k_scale"), var("flat_shape"), _as="flatten")
    # with its last two axes exchanged; torch does it on [batch · heads, length, size]
    swapped = either(
        op.Transpose(_scaled(key, "k_scale"), _as="swap"),
        op.Reshape(op.Transpose(flat, perm=[0, 2, 1]), var("key_shape"), _as="restore"),
    )
    product = op.MatMul(keep(_scaled(q, "q_scale")), keep(_scaled(swapped, "key_scale")))
    return _cast(_scaled(_cast(product, "widened", casts), "scale"), "widened_late", casts)


SCORES = scores_of(k)


def attention(scores: Formula, value: Formula = v, casts: bool = False) -> Formula:
    """Softmax(scores)·v, also with the guard that makes rows of NaN zero.

    `casts`: also with a Cast of the weights.
    """
    weights = op.Softmax(scores, _as="softmax")
    return op.MatMul(_cast(either(guarded(weights), weights), "narrowed", casts), value)


def guarded(weights: Formula) -> Formula:
    """The weights, with zeros in the rows of NaN that a mask makes when it hides all keys."""
    return op.Where(op.IsNaN(weights, _as="guard"), 0.0, weights)


def is_half(m: Match, *three: Edge) -> bool:
    """Whether query, key and value are float16, with scores of float32 between two Casts, or
    without Casts.
    """
    early, late, back = (m.captures.get(name) for name in _CASTS)
    casts = [None if node is None else node.attr("to") for node in (early or late, back)]
    is_mixed = early is not None and late is not None
    wanted = casts in ([None, None], [TensorProto.FLOAT, TensorProto.FLOAT16]) and not is_mixed
    return wanted and {one.elem_type for one in three} == {TensorProto.FLOAT16}


def operands(
    m: Match,
    new: Tape,
    given: Edge | None = None,
    value: Edge | None = None,
    takes_half: bool = False,
) -> tuple[Edge, Edge, float]:
    """Query, key and scale. Refuses what the operator cannot do.

    Key and value are `m.k` and `m.v` if not given. `takes_half`: elements may be float16.
    """
    given = given or m.k
    value = value or m.v
    _require_operands(m, given, value, takes_half)
    key = _key(m, given, new)
    heads, key_heads, value_heads = (heads_of(one) for one in (m.q, key, value))
    if key_heads is None or key_heads != value_heads or key_heads not in (heads, 1):
        refuse("the heads are not known to be the same")
    if heads == 1:
        refuse("one head, which the operator computes on one thread")
    batches = {dimension(batch_of(one), 0) for one in (m.q, key, value)}
    if len(batches) != 1:
        refuse("the batches are not known to be the same")
    return m.q, key, _scale(m)


def _require_operands(m: Match, given: Edge, value: Edge, takes_half: bool) -> None:
    """Refuses types, ranks and sizes that the operator does not take, and a Softmax that differs
    from the operator's.
    """
    three = (m.q, given, value)
    if not _are_plain(m, *three) and not (takes_half and is_half(m, *three)):
        refuse("the elements are not float32")
    if m.q.rank != 4 or value.rank != 4 or given.rank not in (4, 5):
        refuse(_RANK)
    if any(0 in (one.shape or ()) for one in three):
        refuse("tensors known to be empty, which the operator rejects")
    _require_softmax(m)


def _require_softmax(m: Match) -> None:
    if m.softmax.attr("axis") not in (-1, 3):
        refuse("Softmax is not over the keys")
    if m.guard is not None and _may_hold_nan(m.captures.get("mask")):
        refuse("the mask may hold NaN or +∞, which the guard turns into zeros")


def _are_plain(m: Match, *three: Edge) -> bool:
    """Whether query, key and value are float32, without Casts between."""
    is_cast = any(m.captures.get(name) is not None for name in _CASTS)
    return not is_cast and all(one.elem_type == TensorProto.FLOAT for one in three)


def _scale(m: Match) -> float:
    scale = 1.0
    for name in ("q_scale", "k_scale", "key_scale", "scale"):
        for factor, sign in ((getattr(m, name), 1), (getattr(m, f"{name}_divisor"), -1)):
            if factor is None:
                continue
            if not is_one_number(factor) or not float(factor.constant().item()) > 0:
                refuse("the scale is not one positive number")
            scale *= float(factor.constant().item()) ** sign
    if not 1 / _LARGEST_SCALE <= scale <= _LARGEST_SCALE:
        refuse("a very small or large scale")
    return scale


def _key(m: Match, given: Edge, new: Tape) -> Edge:
    """The key with its last two axes in the order of the query's."""
    if m.swap is None:
        return _restored_key(m, given, new)
    order = m.swap.attr("perm") or [3, 2, 1, 0]
    if len(order) != 4 or given.rank != 4:
        refuse(_RANK)
    return transposed(new, given, [*order[:2], order[3], order[2]])


def _restored_key(m: Match, given: Edge, new: Tape) -> Edge:
    """The key that is transposed between two Reshapes."""
    flat = dimensions(m.flatten.outputs[0], 3)
    swapped = dimensions(m.restore.outputs[0], 4)
    if flat is None or swapped is None or given.shape is None or flat[1:] != swapped[:1:-1]:
        refuse(_NOT_TRANSPOSED)
    if given.rank == 5:
        return _key_of_rank_five(given, flat, swapped, new)
    batch, heads, length, size = given.shape
    is_swapped = same_after_reshape(swapped, (batch, heads, size, length))
    if None in (heads, length, size) or flat[1:] != (length, size) or not is_swapped:
        refuse(_NOT_TRANSPOSED)
    return given


def _key_of_rank_five(given: Edge, flat: Shape, swapped: Shape, new: Tape) -> Edge:
    """The key, if the Reshape that split or repeated it has been joined with the one to
    [batch · heads, length, size].
    """
    batch, heads, size, length = swapped
    if None in flat or given.shape is None:
        refuse(_NOT_TRANSPOSED)
    if given.shape[0] == 1 and same_after_reshape(given.shape[1:], (batch, heads, length, size)):
        return new_unsqueeze(new, given, [0], "Squeeze")
    target = [d if isinstance(d, int) else -1 for d in (batch, heads, length, size)]
    if target.count(-1) > 1 or 0 in target:
        refuse(_RANK)
    return new.Reshape(given, new.const(np.array(target, np.int64)))


def _may_hold_nan(mask: Edge | None) -> bool:
    """Whether a mask is made from a constant that may bring NaN or +∞ into it.

    An infinite constant does so even if it is negative when it is multiplied or subtracted.
    """
    waiting = [(mask, True)]  # the part of the mask, and whether it may hold −∞
    for part, is_added in waiting:
        if _holds_nan(part, may_be_lowest=is_added):
            return True
        node = producer_of(part, "Cast", "Div", "Mul", "Neg", "Sub", *ADDING)
        if node is None:
            continue
        is_added = is_added and node.op in ADDING
        waiting += [pair for other in parts_of(node) if (pair := (other, is_added)) not in waiting]
        if len(waiting) > _MOST_PARTS:
            return True
    return False


def _holds_nan(value: Edge | None, *, may_be_lowest: bool) -> bool:
    """Whether a value is a constant with NaN or +∞ in it, or −∞ unless `may_be_lowest`."""
    array = None if value is None else value.constant()
    if array is None or array.dtype.kind != "f":
        return False
    return not (array < np.inf if may_be_lowest else np.isfinite(array)).all()
