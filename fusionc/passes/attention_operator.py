"""What the Attention operator can do itself: repeat keys and values, split and merge heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusionc.model.graph import Edge, Shape
from fusionc.model.types import same_after_reshape
from fusionc.passes.attention import attention, k, q, v
from fusionc.passes.heads import SPLIT, heads_of, rejoined, split, unrepeated
from fusionc.passes.splitting import new_split, sizes_of
from fusionc.rewrite import Match, Pattern, Result, Tape, const, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

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


def _has_repeats(m: Match) -> bool:
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _without_repeats(m: Match, new: Tape) -> Result:
    key, value = unrepeated(m.k), unrepeated(m.v)
    assert key is not None and value is not None
    if heads_of(key) != heads_of(value):
        refuse("key and value have different heads")
    return new.Attention(m.q, key, value, *list(m.attention.inputs)[3:], like=m.attention)


def _has_split_heads(m: Match) -> bool:
    return len(m.attention.outputs) == 1 and all(split(value) is not None for value in (m.q, m.k, m.v))


def _with_heads_inside(m: Match, new: Tape) -> Result:
    sizes = [value.shape[3] for value in (m.q, m.k, m.v) if value.shape is not None and isinstance(value.shape[3], int)]
    if len(sizes) != 3 or 0 in sizes:
        refuse("the sizes of the heads are unknown")
    heads, key_heads = heads_of(m.q), heads_of(m.k)
    if not isinstance(heads, int) or not isinstance(key_heads, int) or key_heads != heads_of(m.v):
        refuse("the number of heads is unknown")
    counts = (heads, key_heads, key_heads)
    parts = [rejoined(v, n * size, new) for v, n, size in zip((m.q, m.k, m.v), counts, sizes, strict=True)]
    return _merged(m, new, parts, (heads, key_heads), (m.q.shape[0], m.q.shape[2], heads * sizes[2]))


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
