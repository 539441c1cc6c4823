from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes.attention._contrib_attention import (
    AttentionResult,
    key_of,
    number_of_heads,
    pasts_of,
    patterns,
    query_of,
    require_same_past,
    value_of,
)
from fusionc.passes.attention._heads import (
    axis_lengths,
    heads_of,
    merged_operands,
    ungrouped,
    unrepeated,
)
from fusionc.passes.attention._lengths import length_of
from fusionc.passes.attention._masks import added_mask
from fusionc.passes.attention._written_attention import operands
from fusionc.rewrite import Match, Tape, UBFusionPass, refuse, unknown

_SIZE_STEP = 8  # the operator requires head sizes that are multiples of this number


def _is_grouped(m: Match) -> bool:
    """Whether several heads of the query share a key: Unsqueeze, Expand and Reshape repeat key and
    value, or the heads of a single query are in groups.
    """
    return ungrouped(m.q) is not None or (
        unrepeated(key_of(m)) is not None and unrepeated(value_of(m)) is not None
    )


def _group_query(m: Match, new: Tape) -> AttentionResult:
    grouped_query, repeated, scale = operands(m, new, key_of(m), value_of(m))
    query = query_of(m)
    key, value = (
        unrepeated(edge) if query is grouped_query else edge for edge in (repeated, value_of(m))
    )
    heads = number_of_heads(m)
    key_heads = None if key is None else heads_of(key)
    if key is None or value is None or not isinstance(key_heads, int):
        refuse(unknown("the number of heads"))
    if heads_of(value) != key_heads:
        refuse("key and value have different heads")
    _require_size(query, key, value)
    pasts, qkv = _separate_pasts(query, key, value)
    parts = merged_operands(qkv, (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("query, key and value do not have merged heads")
    bias = added_mask(m, query, key, new)
    lengths = _lengths_after(pasts[0], query, new) if pasts else _lengths(query, new)
    inputs: list[Edge | None] = [*parts, *(pasts or (None, None)), *lengths, None, None, None, bias]
    attributes: dict[str, Any] = {
        "num_heads": heads,
        "kv_num_heads": key_heads,
        "scale": scale,
        "causal": 0,
    }
    if not pasts:
        return new.node("GroupQueryAttention", inputs, domain=MICROSOFT, **attributes), None, None
    result, keys, values = new.node(
        "GroupQueryAttention", inputs, domain=MICROSOFT, outputs=3, **attributes
    )
    return result, keys, values


def _require_size(query: Edge, key: Edge, value: Edge) -> None:
    """Refuse heads of different sizes, or of a size that the operator does not support."""
    sizes = axis_lengths((query, key, value), 3)
    if not isinstance(sizes[0], int) or sizes[0] % _SIZE_STEP or sizes != [sizes[0]] * 3:
        refuse(f"the heads are not known to have the same size, a multiple of {_SIZE_STEP}")


def _separate_pasts(
    query: Edge, key: Edge, value: Edge
) -> tuple[list[Edge], tuple[Edge, Edge, Edge]]:
    """Key and value of the past (an empty list without a past), and query, key and value without
    the past.

    The operator supports a past only if there are one query and one new key. Otherwise, refuses a
    number of keys that differs from the number of queries.
    """
    qkv = (query, key, value)
    joined = pasts_of(query, key, value)
    is_single = axis_lengths(qkv, 2)[0] == 1
    if joined is not None and is_single:
        pasts, (new_key, new_value) = joined
        new_operands = (query, new_key, new_value)
        if axis_lengths(new_operands, 2) == [1, 1, 1]:
            require_same_past(pasts)
            return pasts, new_operands
    counts = axis_lengths(qkv, 2)
    if counts[0] is None or counts != [counts[0]] * 3:
        refuse("the numbers of keys and queries are not known to be equal")
    return [], qkv


def _lengths(query: Edge, new: Tape) -> list[Edge]:
    """The operator's inputs seqlens_k (the length minus one, for each element of the batch) and
    total_sequence_length.
    """
    batch = length_of(query, 0, new)
    total = new.Cast(length_of(query, 2, new), to=TensorProto.INT32)
    last = new.Sub(total, new.const(np.array([1], np.int32)))
    return [new.Expand(last, batch), total]


def _lengths_after(past: Edge, query: Edge, new: Tape) -> list[Edge]:
    """The inputs seqlens_k and total_sequence_length if one key is joined to those of the past."""
    last = new.Cast(length_of(past, 2, new), to=TensorProto.INT32)
    total = new.Add(last, new.const(np.array([1], np.int32)))
    return [new.Expand(last, length_of(query, 0, new)), total]


class GroupQueryAttentionFusionPass(UBFusionPass):
    """Attention with fewer heads of keys than of queries becomes onnxruntime's GroupQueryAttention.

    before   all forms that MultiHeadAttentionFusionPass finds, with keys and values that Unsqueeze,
             Expand and Reshape repeat; or with one query for each head, if the heads that share a
             key are computed as several queries of one head
    after    com.microsoft.GroupQueryAttention(q, k, v, past?, mask), not causal, because the mask
             hides keys. Keys and values that are joined to those of the past are its second and
             third output
    refuses  what MultiHeadAttentionFusionPass refuses; heads of different sizes, or whose size is
             not a multiple of 8; a number of keys that differs from the number of queries, unless
             one query reads a past: with more queries, the operator hides keys by its own rules
    never    off by default, for two reasons. An empty batch ends the process (onnxruntime 1.31.1).
             A Llama is 3 to 6 % faster than with RepeatedMatMulUbFusionPass when it reads a prompt,
             but 3 to 6 % slower with one query. NaN and +∞ may change results in the cases that
             MultiHeadAttentionFusionPass lists
    algebra  the definition of attention; keys and values are read several times instead of being
             repeated. CPU time of a whole Llama of 4 layers with its rotary embeddings, onnxruntime
             1.31.1, S = 16 / 128 / 384: 0.99 / 0.99 / 0.89; 8 heads of size 64 with 2 heads of
             keys, one query, a past of 16 / 128 / 512: 0.89 / 0.90 / 0.69, but 1.2 to 1.6 if the
             heads that share a key are computed as several queries of one head
    source   onnxruntime's fusions for decoder models
    """

    numerics = "rounding"
    is_for_finite = True
    default = "off"
    patterns = patterns("GroupQueryAttention", _group_query, _is_grouped)
