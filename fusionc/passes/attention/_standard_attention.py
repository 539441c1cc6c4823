"""Patterns that become the operator Attention, and patterns whose nodes Attention can absorb."""

from __future__ import annotations

from typing import Any

from fusionc.passes.attention._heads import (
    heads_of,
    is_merged,
    merged,
    merged_operands,
    packed_source,
    reshaped,
    splitting_reshape,
    unrepeated,
)
from fusionc.passes.attention._written_attention import attention, k, q, v
from fusionc.rewrite import Match, Pattern, Result, Tape, op, refuse, unknown
from fusionc.rewrite.pattern import Formula


def patterns(scores: Formula, rewrite: Any, *inputs: Formula) -> tuple[Pattern, ...]:
    """Three patterns: the formula of attention, an Attention that can absorb the repetition of
    heads, and an Attention that can absorb the split of heads.
    """
    operator = op.Attention(q, k, v, *inputs, _as="attention")
    return (
        Pattern("Attention", attention(scores), rewrite),
        Pattern("AttentionGroups", operator, _drop_repeats, where=_has_repeats),
        Pattern("AttentionHeads", merged(operator), _move_split_inside, where=_has_split_heads),
    )


def _has_repeats(m: Match) -> bool:
    """Whether Expand repeats each head of key and value for several heads of the query."""
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _drop_repeats(m: Match, new: Tape) -> Result:
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
    """Whether Reshape and Transpose split the heads of query, key and value."""
    qkv = (m.q, m.k, m.v)
    is_split = all(splitting_reshape(value) is not None for value in qkv)
    return len(m.attention.outputs) == 1 and (is_split or packed_source(qkv) is not None)


def _move_split_inside(m: Match, new: Tape) -> Result:
    heads = heads_of(m.q)
    key_heads = heads_of(m.k)
    if not isinstance(heads, int) or not isinstance(key_heads, int) or key_heads != heads_of(m.v):
        refuse(unknown("the number of heads"))
    parts = merged_operands((m.q, m.k, m.v), (heads, key_heads, key_heads), new)
    if parts is None:
        refuse(unknown("the sizes of the heads"))
    more = list(m.attention.inputs)[3:]
    result = new.Attention(
        *parts, *more, like=m.attention, q_num_heads=heads, kv_num_heads=key_heads
    )
    return result if is_merged(m, heads, m.q, m.v) else reshaped(m, result, new)
