"""The Attention operator: what makes it, and what it can do itself of what stands around it."""

from __future__ import annotations

from typing import Any

from fusionc.passes.attention._heads import (
    heads_of,
    inside,
    is_merged,
    merged,
    packed,
    reshaped,
    split,
    unrepeated,
)
from fusionc.passes.attention._written_attention import attention, k, q, v
from fusionc.rewrite import Match, Pattern, Result, Tape, op, refuse
from fusionc.rewrite.pattern import Formula


def patterns(scores: Formula, rewrite: Any, *inputs: Formula) -> tuple[Pattern, ...]:
    """The formula, and what makes the operator that comes out of it read less."""
    operator = op.Attention(q, k, v, *inputs, _as="attention")
    return (
        Pattern("Attention", attention(scores), rewrite),
        Pattern("AttentionGroups", operator, _without_repeats, where=_has_repeats),
        Pattern("AttentionHeads", merged(operator), _with_heads_inside, where=_has_split_heads),
    )


def _has_repeats(m: Match) -> bool:
    """Whether key and value are repeated for several heads each."""
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _without_repeats(m: Match, new: Tape) -> Result:
    key = unrepeated(m.k)
    value = unrepeated(m.v)
    assert key is not None and value is not None
    if heads_of(key) != heads_of(value):
        refuse("key and value have different heads")
    more = list(m.attention.inputs)[3:]
    return new.Attention(
        m.q, key, value, *more, like=m.attention, q_num_heads=None, kv_num_heads=None
    )


def _has_split_heads(m: Match) -> bool:
    """Whether query, key and value are split into heads by Reshape and Transpose."""
    three = (m.q, m.k, m.v)
    is_split = all(split(value) is not None for value in three)
    return len(m.attention.outputs) == 1 and (is_split or packed(three) is not None)


def _with_heads_inside(m: Match, new: Tape) -> Result:
    heads = heads_of(m.q)
    key_heads = heads_of(m.k)
    if not isinstance(heads, int) or not isinstance(key_heads, int) or key_heads != heads_of(m.v):
        refuse("the number of heads is unknown")
    parts = inside((m.q, m.k, m.v), (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("the sizes of the heads are unknown")
    more = list(m.attention.inputs)[3:]
    made = new.Attention(*parts, *more, like=m.attention, q_num_heads=heads, kv_num_heads=key_heads)
    return made if is_merged(m, heads, m.q, m.v) else reshaped(m, made, new)
