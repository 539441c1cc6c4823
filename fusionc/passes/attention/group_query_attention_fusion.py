from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes.attention._contrib_attention import (
    Made,
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
from fusionc.rewrite import Match, Tape, UBFusionPass, refuse

_STEP = 8  # sizes of heads that the operator takes are multiples of it


def _is_grouped(m: Match) -> bool:
    """Whether Unsqueeze, Expand and Reshape repeat key and value, or the one query has its heads in
    groups that share a key.
    """
    return ungrouped(m.q) is not None or (
        unrepeated(key_of(m)) is not None and unrepeated(value_of(m)) is not None
    )


def _group_query(m: Match, new: Tape) -> Made:
    given, repeated, scale = operands(m, new, key_of(m), value_of(m))
    query = query_of(m)
    key, value = (unrepeated(one) if query is given else one for one in (repeated, value_of(m)))
    heads = number_of_heads(m)
    key_heads = None if key is None else heads_of(key)
    if key is None or value is None or not isinstance(key_heads, int):
        refuse("the number of heads is unknown")
    if heads_of(value) != key_heads:
        refuse("key and value have different heads")
    _require_size(query, key, value)
    pasts, three = _separate_pasts(query, key, value)
    parts = merged_operands(three, (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("query, key and value are not made of heads side by side")
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
    made, keys, values = new.node(
        "GroupQueryAttention", inputs, domain=MICROSOFT, outputs=3, **attributes
    )
    return made, keys, values


def _require_size(query: Edge, key: Edge, value: Edge) -> None:
    """Refuses heads of different sizes, or of a size that the operator does not take."""
    sizes = axis_lengths((query, key, value), 3)
    if not isinstance(sizes[0], int) or sizes[0] % _STEP or sizes != [sizes[0]] * 3:
        refuse(f"the size of heads is not known to be one multiple of {_STEP}")


def _separate_pasts(
    query: Edge, key: Edge, value: Edge
) -> tuple[list[Edge], tuple[Edge, Edge, Edge]]:
    """Key and value of the past, and query, key and value without it.

    The operator takes a past together with one query and one new key only. Without a past, refuses
    another number of keys than of queries.
    """
    three = (query, key, value)
    joined = pasts_of(query, key, value)
    is_single = axis_lengths(three, 2)[0] == 1
    if joined is not None and is_single:
        pasts, (new_key, new_value) = joined
        fresh = (query, new_key, new_value)
        if axis_lengths(fresh, 2) == [1, 1, 1]:
            require_same_past(pasts)
            return pasts, fresh
    counts = axis_lengths(three, 2)
    if counts[0] is None or counts != [counts[0]] * 3:
        refuse("the numbers of keys and of queries are not known to be equal")
    return [], three


def _lengths(query: Edge, new: Tape) -> list[Edge]:
    """The operator's two inputs that tell the lengths of the keys: one less than the length, for
    each element of the batch, and their maximum.
    """
    batch = length_of(query, 0, new)
    total = new.Cast(length_of(query, 2, new), to=TensorProto.INT32)
    last = new.Sub(total, new.const(np.array([1], np.int32)))
    return [new.Expand(last, batch), total]


def _lengths_after(past: Edge, query: Edge, new: Tape) -> list[Edge]:
    """The same if one key is added to those of the past."""
    last = new.Cast(length_of(past, 2, new), to=TensorProto.INT32)
    total = new.Add(last, new.const(np.array([1], np.int32)))
    return [new.Expand(last, length_of(query, 0, new)), total]


class GroupQueryAttentionFusionPass(UBFusionPass):
    """Attention with fewer heads of keys than of queries becomes onnxruntime's GroupQueryAttention.

    before   what MultiHeadAttentionFusionPass takes, with keys and values that Unsqueeze, Expand
             and Reshape repeat; also with one query for each head, if those that share a key are
             treated as several of one head
    after    com.microsoft.GroupQueryAttention(q, k, v, past?, mask), not causal: the mask says what
             is hidden; keys and values that are joined to those of the past are its second and
             third output
    refuses  what MultiHeadAttentionFusionPass refuses; heads whose size is not a multiple of 8, or
             not the same; another number of keys than of queries, as with a past and more than one
             query: the operator then has its own rules for batches
    never    by default: an empty batch ends the process (onnxruntime 1.31.1), and compared with
             RepeatedMatMulUbFusionPass a Llama gains 3 to 6 % with a prompt and loses as much with
             one query; kept: what MultiHeadAttentionFusionPass does not keep
    algebra  the definition of attention; keys and values are read several times instead of
             repeated; onnxruntime 1.31.1, a Llama of 4 layers with its rotary embeddings, ratio of
             the CPU time of the whole model, S = 16 / 128 / 384: 0.99 / 0.99 / 0.89; 8 heads of 64
             on 2 keys, one query, a past of 16 / 128 / 512: 0.89 / 0.90 / 0.69, but 1.2 to 1.6
             if the queries that share a key are computed as several of one head
    source   onnxruntime's fusions for decoder models
    """

    numerics = "rounding"
    is_for_finite = True
    default = "off"
    patterns = patterns("GroupQueryAttention", _group_query, _is_grouped)
