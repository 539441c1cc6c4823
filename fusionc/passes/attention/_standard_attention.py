"""What the Attention operator can do itself: repeat keys and values, split and merge heads."""

from __future__ import annotations

from typing import Any

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.split_and_concat import new_split
from fusionc.passes.attention._heads import SPLIT, heads_of, packed, side_by_side, split, unrepeated
from fusionc.passes.attention._written_attention import attention, k, q, v
from fusionc.rewrite import Match, Pattern, Result, Tape, either, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.elements import elements
from fusionc.shapes.equality import same_after_reshape


def merged(formula: Formula) -> Formula:
    """The heads side by side, also where torch writes a Reshape between: to the shape that there is."""
    unchanged = either(op.Reshape(formula, var("same_shape"), _as="unchanged"), formula)
    return op.Reshape(op.Transpose(unchanged, perm=SPLIT, _as="turn"), var("shape"), _as="merge")


def merged_or_single(formula: Formula) -> Formula:
    """The same, and without a Transpose, which one query for each head does not need: `m.turn` is None there."""
    return either(merged(formula), op.Reshape(formula, var("shape"), _as="merge"))


def patterns(scores: Formula, rewrite: Any, *inputs: Formula) -> tuple[Pattern, ...]:
    """The formula, and what makes the operator that comes out of it read less."""
    operator = op.Attention(q, k, v, *inputs, _as="attention")
    return (
        Pattern("Attention", attention(scores), rewrite),
        Pattern("AttentionGroups", operator, _without_repeats, where=_has_repeats),
        Pattern("AttentionHeads", merged(operator), _with_heads_inside, where=_has_split_heads),
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
    three = (m.q, m.k, m.v)
    is_split = all(split(value) is not None for value in three)
    return len(m.attention.outputs) == 1 and (is_split or packed(three) is not None)


def _with_heads_inside(m: Match, new: Tape) -> Result:
    heads, key_heads = heads_of(m.q), heads_of(m.k)
    if not isinstance(heads, int) or not isinstance(key_heads, int) or key_heads != heads_of(m.v):
        refuse("the number of heads is unknown")
    parts = inside((m.q, m.k, m.v), (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("the sizes of the heads are unknown")
    more = list(m.attention.inputs)[3:]
    made = new.Attention(*parts, *more, like=m.attention, q_num_heads=heads, kv_num_heads=key_heads)
    return made if is_merged(m, heads, m.q, m.v) else reshaped(m, made, new)


def reshaped(m: Match, made: Edge, new: Tape) -> Edge:
    """[batch, length, heads · size] in the shape that the heads had before. Refuses where a 0 might mean another
    dimension."""
    target = elements(m.shape)
    if target is None or (not m.merge.attr("allowzero") and any(e == 0 or not isinstance(e, int) for e in target[2:])):
        refuse("the heads are merged in an unknown way")
    return new.Reshape(made, m.shape, like=m.merge)


def inside(three: tuple[Edge, Edge, Edge], heads: tuple[int, int, int], new: Tape) -> list[Edge] | None:
    """Query, key and value with their heads side by side, as they were before Reshape and Transpose split them."""
    whole = packed(three)
    if whole is not None:
        x, width = whole
        return list(new_split(new, x, [width] * 3, 2))
    found = [side_by_side(value, count, new) for value, count in zip(three, heads, strict=True)]
    parts = [part for part in found if part is not None]
    return parts if len(parts) == 3 else None


def is_merged(m: Match, heads: int, query: Edge, value: Edge) -> bool:
    """Whether the heads are known to be side by side, on three axes, in the result."""
    if m.unchanged is not None:
        before, after = m.unchanged.inputs[0].shape, m.unchanged.outputs[0].shape
        if not same_after_reshape(before, after):
            refuse("a Reshape behind the operator changes something")
    (batch, _, length, _), size = query.shape or (None,) * 4, None if value.shape is None else value.shape[3]
    shape: Shape = (batch, length, heads * size if isinstance(size, int) else None)
    return same_after_reshape(m.merge.outputs[0].shape, shape)
