"""Attention that is written out: its formula, and what it captured."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze, transposed
from fusionc.passes.attention._heads import batch_of, heads_of, made_by
from fusionc.passes.attention._masks import ADDING, is_one_number, parts_of
from fusionc.rewrite import Match, Tape, const, either, keep, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.elements import dimension
from fusionc.shapes.equality import same_after_reshape

q = var("q")
k = var("k")
v = var("v")
mask = var("mask")
_MOST_PARTS = 100  # of what a mask is made of, that many are looked at
# of the scores, to a wider type, and of the weights, back
_CASTS = ("widened", "widened_late", "narrowed")
# beyond it and its reciprocal, it may matter for the range where the scale is applied
_LARGEST_SCALE = 2.0**12


def _scaled(formula: Formula, name: str) -> Formula:
    """The formula, or a constant times it, or it divided by a constant."""
    return either(formula * const(name), formula / const(f"{name}_divisor"), formula)


def _cast(formula: Formula, name: str, is_wanted: bool) -> Formula:
    """The formula, or a Cast of it where such are wanted."""
    return either(op.Cast(formula, _as=name), formula) if is_wanted else formula


def scores_of(key: Formula, casts: bool = False) -> Formula:
    """q·kᵀ·scale, the scale on q, on k, on both or on the product; `casts`: also with one behind
    it.
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
    """Softmax(scores)·v, also with the guard that makes rows of NaN zero; `casts` takes one of the
    weights.
    """
    weights = op.Softmax(scores, _as="softmax")
    return op.MatMul(_cast(either(guarded(weights), weights), "narrowed", casts), value)


def guarded(weights: Formula) -> Formula:
    """The weights, with zeros in rows of NaN, which a mask makes that hides all keys."""
    return op.Where(op.IsNaN(weights, _as="guard"), 0.0, weights)


def is_half(m: Match, *three: Edge) -> bool:
    """Whether query, key and value are float16, with scores of float32 between two Casts, or
    without.
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
    """Query, key and scale. Refuses what the operator cannot do. Key and value are `m.k` and `m.v`
    if not given.

    `takes_half` says that elements may be float16.
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
    """Refuses types, ranks and sizes that the operator does not take, each by itself, and a Softmax
    that it is not.
    """
    if not _are_plain(m, m.q, given, value) and not (takes_half and is_half(m, m.q, given, value)):
        refuse("the elements are not float32")
    if m.q.rank != 4 or value.rank != 4 or given.rank not in (4, 5):
        refuse("the rank is unknown or not 4")
    if any(0 in (one.shape or ()) for one in (m.q, given, value)):
        refuse("tensors known to be empty, which the operator rejects")
    if m.softmax.attr("axis") not in (-1, 3):
        refuse("Softmax is not over the keys")
    if m.guard is not None and _makes_nan(m.captures.get("mask")):
        refuse("the mask may hold NaN or +∞, of which the guard makes zeros")


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
    """The key with its last two axes as they are in the query."""
    if m.swap is not None:
        order = m.swap.attr("perm") or [3, 2, 1, 0]
        if len(order) != 4 or given.rank != 4:
            refuse("the rank is unknown or not 4")
        return transposed(new, given, [*order[:2], order[3], order[2]])
    swapped = m.restore.outputs[0].shape
    if given.rank == 5:
        return _of_five_axes(given, m.flatten.outputs[0].shape, swapped, new)
    (batch, heads, length, size) = given.shape or (None,) * 4
    flat = m.flatten.outputs[0].shape
    if None in (heads, length, size) or flat is None or tuple(flat[1:]) != (length, size):
        refuse("the key is not known to be transposed")
    if not same_after_reshape(swapped, (batch, heads, size, length)) or tuple(swapped[2:]) != (
        size,
        length,
    ):
        refuse("the key is not known to be transposed")
    return given


def _of_five_axes(given: Edge, flat: Shape | None, swapped: Shape | None, new: Tape) -> Edge:
    """The key, where what split or repeated it has become one with the Reshape to [batch · heads,
    length, size].
    """
    if (
        flat is None
        or swapped is None
        or len(flat) != 3
        or len(swapped) != 4
        or given.shape is None
    ):
        refuse("the key is not known to be transposed")
    batch, heads, size, length = swapped
    if None in flat or tuple(flat[1:]) != (length, size):
        refuse("the key is not known to be transposed")
    if given.shape[0] == 1 and same_after_reshape(given.shape[1:], (batch, heads, length, size)):
        return new_unsqueeze(new, given, [0], "Squeeze")
    target = [d if isinstance(d, int) else -1 for d in (batch, heads, length, size)]
    if target.count(-1) > 1 or 0 in target:
        refuse("the rank is unknown or not 4")
    return new.Reshape(given, new.const(np.array(target, np.int64)))


def _makes_nan(mask: Edge | None) -> bool:
    """Whether a mask may hold NaN or +∞ by what it is made of: such a constant, or one of ∞ that is
    multiplied or subtracted.
    """
    left = [(mask, True)]  # and whether it may hold −∞
    for value, is_added in left:
        array = value.constant() if value is not None and value.is_constant else None
        if (
            array is not None
            and array.dtype.kind == "f"
            and not (array < np.inf if is_added else np.isfinite(array)).all()
        ):
            return True
        node = made_by(value, "Cast", "Div", "Mul", "Neg", "Sub", *ADDING)
        is_added = is_added and node is not None and node.op in ADDING
        found = [] if node is None else [(part, is_added) for part in parts_of(node)]
        left += [pair for pair in found if pair not in left]
        if len(left) > _MOST_PARTS:
            return True
    return False
