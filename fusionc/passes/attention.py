"""Attention that is written out: its formula, what it captured, and the operator that takes its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onnx import TensorProto

from fusionc.model.dimensions import dimension
from fusionc.model.graph import Edge, Shape
from fusionc.model.types import same_after_reshape
from fusionc.passes.heads import SPLIT, batch_of, heads_of, joined, unrepeated
from fusionc.passes.splitting import new_split, sizes_of
from fusionc.rewrite import Match, Pattern, Result, Tape, const, either, keep, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

q, k, v, mask = var("q"), var("k"), var("v"), var("mask")
_SMALLEST_SCALE = 2.0**-12  # smaller ones may keep the product in range; that of heads of 2²⁴ elements


def _scaled(formula: Formula, name: str) -> Formula:
    """The formula, or a constant times it, or it divided by a constant."""
    return either(formula * const(name), formula / const(f"{name}_divisor"), formula)


_flat = op.Reshape(_scaled(k, "k_scale"), var("flat_shape"), _as="flatten")
_KEY = either(  # with its last two axes exchanged; torch does it on [batch · heads, length, size]
    op.Transpose(_scaled(k, "k_scale"), _as="swap"),
    op.Reshape(op.Transpose(_flat, perm=[0, 2, 1]), var("key_shape"), _as="restore"),
)
_PRODUCT = op.MatMul(keep(_scaled(q, "q_scale")), keep(_scaled(_KEY, "key_scale")))
SCORES = _scaled(_PRODUCT, "scale")


def attention(scores: Formula) -> Formula:
    """Softmax(scores)·v, also with the guard that makes rows of NaN zero."""
    weights = op.Softmax(scores, _as="softmax")
    return op.MatMul(either(op.Where(op.IsNaN(weights, _as="guard"), 0.0, weights), weights), v)


_packed = op.Split(  # query, key and value come out of one product
    op.Transpose(op.Reshape(var("x"), var("packed_shape"), _as="unpack"), perm=[2, 0, 3, 1, 4]), rest("sizes"), axis=0,
    _as="split",
)  # fmt: skip
_PARTS = tuple(op.Squeeze(_packed[i], const(f"axes_{i}")) for i in range(3))


def _unchanged(formula: Formula) -> Formula:
    """The formula, or a Reshape of it that torch writes: to the shape that it has."""
    return either(op.Reshape(formula, var("same_shape"), _as="unchanged"), formula)


def patterns(scores: Formula, rewrite: Any, *inputs: Formula) -> tuple[Pattern, ...]:
    """The formula, and what makes the operator that comes out of it read less."""
    operator, packed = (op.Attention(*three, *inputs, _as="attention") for three in ((q, k, v), _PARTS))
    merged, merged_packed = (
        op.Reshape(op.Transpose(_unchanged(o), perm=SPLIT), var("shape"), _as="merge") for o in (operator, packed)
    )
    return (
        Pattern("Attention", attention(scores), rewrite),
        Pattern("AttentionGroups", operator, _without_repeats, where=_has_repeats),
        Pattern("AttentionHeads", merged, _with_heads_inside, where=_has_split_heads),
        Pattern("AttentionPacked", merged_packed, _packed_inside),
    )


def operands(m: Match, new: Tape) -> tuple[Edge, Edge, float]:
    """Query, key and scale. Refuses what the operator cannot do."""
    if any(value.elem_type != TensorProto.FLOAT for value in (m.q, m.k, m.v)):
        refuse("the elements are not float32")
    if any(value.rank != 4 for value in (m.q, m.k, m.v)):
        refuse("the rank is unknown or not 4")
    if m.softmax.attr("axis") not in (-1, 3):
        refuse("Softmax is not over the keys")
    key = _key(m, new)
    heads, key_heads, value_heads = (heads_of(value) for value in (m.q, key, m.v))
    if key_heads is None or key_heads != value_heads or key_heads not in (heads, 1):
        refuse("the heads are not known to be the same")
    if heads == 1:
        refuse("one head, which the operator computes on one thread")
    batches = {dimension(batch_of(value), 0) for value in (m.q, key, m.v)}
    if len(batches) != 1:
        refuse("the batches are not known to be the same")
    return m.q, key, _scale(m)


def _scale(m: Match) -> float:
    scale = 1.0
    for name in ("q_scale", "k_scale", "key_scale", "scale"):
        for factor, sign in ((m.captures.get(name), 1), (m.captures.get(f"{name}_divisor"), -1)):
            if factor is None:
                continue
            array = factor.constant()
            if array.size != 1 or array.ndim > 4 or not float(array.item()) > 0:
                refuse("the scale is not one positive number")
            scale *= float(array.item()) ** sign
    if not _SMALLEST_SCALE <= scale < math.inf:
        refuse("a very small or infinite scale")
    return scale


def _key(m: Match, new: Tape) -> Edge:
    """The key with its last two axes as they are in the query."""
    if m.captures.get("swap") is not None:
        order = m.swap.attr("perm") or [3, 2, 1, 0]
        order = [*order[:2], order[3], order[2]]
        return _moved(m.k, order, new)
    swapped = m.restore.outputs[0].shape
    (batch, heads, length, size), flat = m.k.shape, m.flatten.outputs[0].shape
    if None in (heads, length, size) or flat is None or tuple(flat[1:]) != (length, size):
        refuse("the key is not known to be transposed")
    if not same_after_reshape(swapped, (batch, heads, size, length)) or tuple(swapped[2:]) != (size, length):
        refuse("the key is not known to be transposed")
    key: Edge = m.k
    return key


def _moved(value: Edge, order: list[int], new: Tape) -> Edge:
    made: Edge = value if order == [0, 1, 2, 3] else new.Transpose(value, perm=order)
    return made


def _has_repeats(m: Match) -> bool:
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _without_repeats(m: Match, new: Tape) -> Result:
    key, value = unrepeated(m.k), unrepeated(m.v)
    assert key is not None and value is not None
    if heads_of(key) != heads_of(value):
        refuse("key and value have different heads")
    return new.Attention(m.q, key, value, *list(m.attention.inputs)[3:], like=m.attention)


def _has_split_heads(m: Match) -> bool:
    return len(m.attention.outputs) == 1 and all(joined(value) is not None for value in (m.q, m.k, m.v))


def _with_heads_inside(m: Match, new: Tape) -> Result:
    parts = [joined(value) for value in (m.q, m.k, m.v)]
    heads, key_heads = heads_of(m.q), heads_of(m.k)
    assert isinstance(heads, int) and isinstance(key_heads, int)
    return _merged(m, new, parts, (heads, key_heads), (m.q.shape[0], m.q.shape[2], heads * m.v.shape[3]))


def _packed_inside(m: Match, new: Tape) -> Result:
    shape = m.unpack.outputs[0].shape
    if shape is None or not all(isinstance(d, int) for d in shape[2:]) or sizes_of(m.split) != [1, 1, 1]:
        refuse("the sizes of the heads are unknown")
    batch, length, _, heads, size = shape
    if m.x.rank != 3 or not same_after_reshape(m.x.shape, (batch, length, 3 * heads * size)):
        refuse("query, key and value are not known to be packed in the last of three axes")
    parts = new_split(new, m.x, [heads * size] * 3, 2)
    return _merged(m, new, parts, (heads, heads), (batch, length, heads * size))


def _merged(m: Match, new: Tape, parts: Sequence[Edge | None], heads: tuple[int, int], shape: Shape) -> Result:
    """The operator of [batch, length, heads · size]."""
    if m.captures.get("unchanged") is not None:
        before, after = m.attention.outputs[0].shape, m.unchanged.outputs[0].shape
        if not same_after_reshape(before, after):
            refuse("a Reshape behind the operator changes something")
    more = list(m.attention.inputs)[3:]
    made: Edge = new.Attention(*parts, *more, like=m.attention, q_num_heads=heads[0], kv_num_heads=heads[1])
    if same_after_reshape(m.merge.outputs[0].shape, shape):
        return made
    target = m.shape.constant()
    if target is None or (not m.merge.attr("allowzero") and (target[2:] == 0).any()):
        refuse("the heads are merged in an unknown way")
    return new.Reshape(made, m.shape, like=m.merge)
