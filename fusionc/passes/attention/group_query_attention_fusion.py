from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes.attention._contrib_attention import (
    Made,
    key_of,
    number_of_heads,
    past_of,
    patterns,
    query_of,
    value_of,
)
from fusionc.passes.attention._heads import heads_of, inside, ungrouped, unrepeated
from fusionc.passes.attention._lengths import length_of
from fusionc.passes.attention._masks import added_mask
from fusionc.passes.attention._written_attention import operands
from fusionc.rewrite import Match, Tape, UBFusionPass, refuse

_STEP = 8  # sizes of heads that the operator takes are multiples of it


def _is_grouped(m: Match) -> bool:
    """Whether Unsqueeze, Expand and Reshape repeat key and value, or the one query has the heads of
    a key in groups.
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
    shapes = [one.shape or (None,) * 4 for one in (query, key, value)]
    sizes = [shape[3] for shape in shapes]
    counts = [shape[2] for shape in shapes]
    if not isinstance(sizes[0], int) or sizes[0] % _STEP or sizes != [sizes[0]] * 3:
        refuse(f"the size of heads is not known to be one multiple of {_STEP}")
    pasts, three = _pasts(query, key, value)
    if not pasts and (counts[0] is None or counts != [counts[0]] * 3):
        refuse("there are not known to be as many keys as queries")
    parts = inside(three, (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("query, key and value are not made of heads side by side")
    bias = added_mask(m, query, key, new)
    lengths = _lengths_behind(pasts[0], query, new) if pasts else _lengths(query, new)
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


def _pasts(query: Edge, key: Edge, value: Edge) -> tuple[list[Edge], tuple[Edge, Edge, Edge]]:
    """Keys and values of the past, which the operator takes together with one query; query, key and
    value without.
    """
    old_key = past_of(key, query)
    old_value = past_of(value, query)
    is_single = query.shape is not None and query.shape[2] == 1
    if old_key is None or old_value is None or not is_single:
        return [], (query, key, value)
    if {None if one.shape is None else one.shape[2] for one in (old_key[1], old_value[1])} != {1}:
        return [], (query, key, value)
    if (
        old_key[0].shape != old_value[0].shape
        or old_key[0].shape is None
        or None in old_key[0].shape
    ):
        refuse("keys and values of the past have different shapes")
    return [old_key[0], old_value[0]], (query, old_key[1], old_value[1])


def _lengths(query: Edge, new: Tape) -> list[Edge]:
    """What the operator reads the lengths of the keys from: one less for each of a batch, and their
    maximum.
    """
    batch = length_of(query, 0, new)
    total = new.Cast(length_of(query, 2, new), to=TensorProto.INT32)
    last = new.Sub(total, new.const(np.array([1], np.int32)))
    return [new.Expand(last, batch), total]


def _lengths_behind(past: Edge, query: Edge, new: Tape) -> list[Edge]:
    """The same where one key is added to those of the past."""
    last = new.Cast(length_of(past, 2, new), to=TensorProto.INT32)
    total = new.Add(last, new.const(np.array([1], np.int32)))
    return [new.Expand(last, length_of(query, 0, new)), total]


class GroupQueryAttentionFusionPass(UBFusionPass):
    """Attention with fewer heads of keys than of queries becomes onnxruntime's GroupQueryAttention.

    before   what MultiHeadAttentionFusionPass takes, with keys and values that Unsqueeze, Expand
             and Reshape repeat; also with one query for each head, those of one key as if they were
             several of one head
    after    com.microsoft.GroupQueryAttention(q, k, v, past?, mask), not causal: the mask says what
             is hidden; keys and values that are joined to those of the past are its second and
             third output
    refuses  what MultiHeadAttentionFusionPass refuses; heads of which the size is no multiple of 8,
             or not the same; another number of keys than of queries, as with those of the past and
             more than one query: the operator then has its own rules for batches
    never    by default: an empty batch ends the process (onnxruntime 1.31.1), and beside
             RepeatedMatMulUbFusionPass a Llama gains 3 to 6 % with a prompt and loses as much with
             one query; kept: what MultiHeadAttentionFusionPass does not keep
    algebra  the definition of attention; keys and values are read several times instead of
             repeated; onnxruntime 1.31.1, a Llama of 4 layers with its rotary embeddings, ratio of
             the CPU time of the whole model, S = 16 / 128 / 384: 0.99 / 0.99 / 0.89; 8 heads of 64
             on 2 keys, one query, a past of 16 / 128 / 512: 0.89 / 0.90 / 0.69, but 1.2 to 1.6
             where the queries of one key are computed as several of one head
    source   onnxruntime's fusions for decoder models
    """

    numerics = "rounding"
    is_for_finite = True
    default = "off"
    patterns = patterns("GroupQueryAttention", _group_query, _is_grouped)
