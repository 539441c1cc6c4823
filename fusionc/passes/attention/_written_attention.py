"""Attention that is written out: its formula, and checks of the captured values."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze, transposed
from fusionc.passes.attention._heads import batch_of, dimensions, heads_of, producer_of
from fusionc.passes.attention._masks import ADDING, is_one_number, parts_of
from fusionc.rewrite import Match, Tape, const, either, keep, op, refuse, unknown, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.elements import dimension
from fusionc.shapes.equality import same_after_reshape

q = var("q")
k = var("k")
v = var("v")
mask = var("mask")
_MAX_PARTS = 100  # the largest number of parts of a mask that are examined
# The names of Casts: the scores are cast to a wider type before or after the scale, and the weights
# are cast back.
_CASTS = ("widened", "widened_late", "narrowed")
# If a scale is above this number or below its reciprocal, an overflow may depend on the place of
# the scale.
_LARGEST_SCALE = 2.0**12
_NOT_TRANSPOSED = "the key is not known to be transposed"


def _scaled(formula: Formula, name: str) -> Formula:
    """The formula, alone or multiplied or divided by a constant."""
    return either(formula * const(name), formula / const(f"{name}_divisor"), formula)


def _cast(formula: Formula, name: str, is_wanted: bool) -> Formula:
    """The formula; if `is_wanted`, also a Cast of the formula."""
    return either(op.Cast(formula, _as=name), formula) if is_wanted else formula


def scores_of(key: Formula, casts: bool = False) -> Formula:
    """q·kᵀ·scale, with the scale on q, on k, on both or on the product.

    If `casts`, the product or the scaled product may be cast.
    """
    flat = op.Reshape(_scaled(key, "k_scale"), var("flat_shape"), _as="flatten")
    # The key with its last two axes exchanged. Torch exchanges them after a Reshape to [batch ·
    # heads, length, size].
    swapped = either(
        op.Transpose(_scaled(key, "k_scale"), _as="swap"),
        op.Reshape(op.Transpose(flat, perm=[0, 2, 1]), var("key_shape"), _as="restore"),
    )
    product = op.MatMul(keep(_scaled(q, "q_scale")), keep(_scaled(swapped, "key_scale")))
    return _cast(_scaled(_cast(product, "widened", casts), "scale"), "widened_late", casts)


SCORES = scores_of(k)


def attention(scores: Formula, value: Formula = v, casts: bool = False) -> Formula:
    """Softmax(scores)·v, with or without the guard that replaces rows of NaN by zeros.

    If `casts`, the weights may be cast.
    """
    weights = op.Softmax(scores, _as="softmax")
    return op.MatMul(_cast(either(guarded(weights), weights), "narrowed", casts), value)


def guarded(weights: Formula) -> Formula:
    """The weights with zeros in place of NaN. A row is NaN if a mask hides all its keys by −∞."""
    return op.Where(op.IsNaN(weights, _as="guard"), 0.0, weights)


def is_half(m: Match, *qkv: Edge) -> bool:
    """Whether query, key and value are float16, with or without Casts of the scores to float32 and
    of the weights back.
    """
    early, late, back = (m.captures.get(name) for name in _CASTS)
    casts = [None if node is None else node.attr("to") for node in (early or late, back)]
    is_mixed = early is not None and late is not None
    wanted = casts in ([None, None], [TensorProto.FLOAT, TensorProto.FLOAT16]) and not is_mixed
    return wanted and {edge.elem_type for edge in qkv} == {TensorProto.FLOAT16}


def operands(
    m: Match,
    new: Tape,
    raw_key: Edge | None = None,
    value: Edge | None = None,
    takes_half: bool = False,
) -> tuple[Edge, Edge, float]:
    """Query, key and scale. Refuses an attention that the operator cannot compute.

    `raw_key` is the key before its transposition for the product, by default `m.k`. The default of
    `value` is `m.v`. If `takes_half`, the elements may be float16.
    """
    raw_key = raw_key or m.k
    value = value or m.v
    _require_operands(m, raw_key, value, takes_half)
    key = _key(m, raw_key, new)
    heads, key_heads, value_heads = (heads_of(edge) for edge in (m.q, key, value))
    if key_heads is None or key_heads != value_heads or key_heads not in (heads, 1):
        refuse("the heads are not known to be the same")
    if heads == 1:
        refuse("the operator computes one head on one thread")
    batches = {dimension(batch_of(edge), 0) for edge in (m.q, key, value)}
    if len(batches) != 1:
        refuse("the batches are not known to be the same")
    return m.q, key, _scale(m)


def _require_operands(m: Match, raw_key: Edge, value: Edge, takes_half: bool) -> None:
    """Refuse types, ranks and sizes that the operator does not support, and a Softmax that differs
    from the operator's.
    """
    qkv = (m.q, raw_key, value)
    if not _are_plain(m, *qkv) and not (takes_half and is_half(m, *qkv)):
        refuse("the elements are not float32")
    m.q.require_rank(4)
    value.require_rank(4)
    raw_key.require_rank(4, 5)
    if any(0 in (edge.shape or ()) for edge in qkv):
        refuse("the operator rejects empty tensors")
    _require_softmax(m)


def _require_softmax(m: Match) -> None:
    if m.softmax.attr("axis") not in (-1, 3):
        refuse("Softmax is not over the keys")
    if m.guard is not None and _may_hold_nan(m.captures.get("mask")):
        refuse("the mask may hold NaN or +∞, which the guard turns into zeros")


def _are_plain(m: Match, *qkv: Edge) -> bool:
    """Whether query, key and value are float32, and no Casts are between the operators."""
    is_cast = any(m.captures.get(name) is not None for name in _CASTS)
    return not is_cast and all(edge.elem_type == TensorProto.FLOAT for edge in qkv)


def _scale(m: Match) -> float:
    scale = 1.0
    for name in ("q_scale", "k_scale", "key_scale", "scale"):
        for factor, sign in ((getattr(m, name), 1), (getattr(m, f"{name}_divisor"), -1)):
            if factor is None:
                continue
            if not is_one_number(factor) or not float(factor.constant().item()) > 0:
                refuse("the scale is not a single positive number")
            scale *= float(factor.constant().item()) ** sign
    if not 1 / _LARGEST_SCALE <= scale <= _LARGEST_SCALE:
        refuse("the scale is very small or very large")
    return scale


def _key(m: Match, raw_key: Edge, new: Tape) -> Edge:
    """The key with its axes in the same order as those of the query."""
    if m.swap is None:
        return _restored_key(m, raw_key, new)
    order = m.swap.attr("perm") or [3, 2, 1, 0]
    raw_key.require_rank(4)
    if len(order) != 4:
        refuse("the rank is not 4")
    return transposed(new, raw_key, [*order[:2], order[3], order[2]])


def _restored_key(m: Match, raw_key: Edge, new: Tape) -> Edge:
    """The key before its transposition, if it is transposed between two Reshapes."""
    flat = dimensions(m.flatten.outputs[0], 3)
    swapped = dimensions(m.restore.outputs[0], 4)
    if flat is None or swapped is None or raw_key.shape is None or flat[1:] != swapped[:1:-1]:
        refuse(_NOT_TRANSPOSED)
    if raw_key.rank == 5:
        return _key_of_rank_five(raw_key, flat, swapped, new)
    batch, heads, length, size = raw_key.shape
    is_swapped = same_after_reshape(swapped, (batch, heads, size, length))
    if None in (heads, length, size) or flat[1:] != (length, size) or not is_swapped:
        refuse(_NOT_TRANSPOSED)
    return raw_key


def _key_of_rank_five(raw_key: Edge, flat: Shape, swapped: Shape, new: Tape) -> Edge:
    """The key before its transposition, if a pass has joined the split or repetition of its heads
    with the Reshape to [batch · heads, length, size].
    """
    batch, heads, size, length = swapped
    if None in flat or raw_key.shape is None:
        refuse(_NOT_TRANSPOSED)
    if raw_key.shape[0] == 1 and same_after_reshape(
        raw_key.shape[1:], (batch, heads, length, size)
    ):
        return new_unsqueeze(new, raw_key, [0], "Squeeze")
    target = [d if isinstance(d, int) else -1 for d in (batch, heads, length, size)]
    if target.count(-1) > 1 or 0 in target:
        refuse(unknown("the shape of the key"))
    return new.Reshape(raw_key, new.const(np.array(target, np.int64)))


def _may_hold_nan(mask: Edge | None) -> bool:
    """Whether a constant in a mask may make an element of the mask NaN or +∞. A constant −∞ may do
    that if it is multiplied or subtracted. Also True if the mask has too many parts to examine.
    """
    pending = [(mask, True)]  # each part of the mask, and whether it may contain −∞
    for part, is_added in pending:
        if _holds_nan(part, may_be_lowest=is_added):
            return True
        node = producer_of(part, "Cast", "Div", "Mul", "Neg", "Sub", *ADDING)
        if node is None:
            continue
        is_added = is_added and node.op in ADDING
        pending += [pair for other in parts_of(node) if (pair := (other, is_added)) not in pending]
        if len(pending) > _MAX_PARTS:
            return True
    return False


def _holds_nan(value: Edge | None, *, may_be_lowest: bool) -> bool:
    """Whether a value is a constant with NaN or +∞, or with −∞ unless `may_be_lowest`."""
    array = None if value is None else value.constant()
    if array is None or array.dtype.kind != "f":
        return False
    return not (array < np.inf if may_be_lowest else np.isfinite(array)).all()
