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
    require_same_past,
    value_of,
)
from fusionc.passes.attention._heads import (
    SPLIT,
    axis_lengths,
    heads_of,
    merged_heads,
    merged_operands,
    ungrouped,
    unrepeated,
)
from fusionc.passes.attention._masks import added_mask
from fusionc.passes.attention._written_attention import is_half, operands
from fusionc.rewrite import Match, Tape, UBFusionPass, refuse


def _multi_head(m: Match, new: Tape) -> Made:
    value = value_of(m)
    query, key, scale = operands(m, new, key_of(m), value, takes_half=True)
    if is_half(m, query, key, value):
        return _multi_head_of_halves(m, new, query, key, value, scale)
    heads = number_of_heads(m)
    if heads_of(key) != heads_of(query):
        refuse("one key for all heads")
    attributes: dict[str, Any] = {"num_heads": heads, "scale": scale}
    joined = None if m.keys is None else pasts_of(query, key, value)
    if joined is None:
        parts = _operator_inputs(query, key, value, heads, new)
        inputs = [*parts, None, None, added_mask(m, query, key, new)]
        return new.node("MultiHeadAttention", inputs, domain=MICROSOFT, **attributes), None, None
    pasts, (new_key, new_value) = joined
    merged = merged_operands((query, new_key, new_value), (heads, heads, heads), new)
    if merged is None:
        refuse("query, key and value are not made of heads side by side")
    require_same_past(pasts)
    inputs = [*merged, None, None, added_mask(m, query, key, new), *pasts]
    made, keys, values = new.node(
        "MultiHeadAttention", inputs, domain=MICROSOFT, outputs=3, **attributes
    )
    return made, keys, values


def _operator_inputs(
    query: Edge, key: Edge, value: Edge, heads: int, new: Tape, *, moves_query: bool = False
) -> list[Edge]:
    """Query, key and value with their heads side by side, or only the query."""
    merged = merged_operands((query, key, value), (heads, heads, heads), new)
    return merged or _whole_keys(query, key, value, heads, new, moves_query=moves_query)


def _multi_head_of_halves(
    m: Match, new: Tape, query: Edge, key: Edge, value: Edge, scale: float
) -> Made:
    """Attention of float16 between Casts, which onnxruntime would put around each of its
    operators.
    """
    hides = any(one is not None for one in (m.mask, m.shown, m.hidden, m.bias))
    if m.keys is not None:
        refuse("keys and values of the past are float16")
    if hides and m.widened is None and m.widened_late is None:
        refuse("a mask is added in float16, where it may round the scores of a row away")
    heads = number_of_heads(m)
    if heads_of(key) != heads_of(query):
        refuse("one key for all heads")
    parts = _operator_inputs(query, key, value, heads, new, moves_query=True)
    wide = [new.Cast(part, to=TensorProto.FLOAT) for part in parts]
    inputs = [*wide, None, None, added_mask(m, query, key, new)]
    made = new.node("MultiHeadAttention", inputs, domain=MICROSOFT, num_heads=heads, scale=scale)
    return new.Cast(made, to=TensorProto.FLOAT16), None, None


def _whole_keys(
    query: Edge, key: Edge, value: Edge, heads: int, new: Tape, *, moves_query: bool
) -> list[Edge]:
    """The query with its heads side by side, and key and value as they are, [batch, heads, length,
    size]: joined to those of the past, or repeated.

    `moves_query`: it pays to put the heads of any query side by side.
    """
    part = merged_heads(query, heads, new)
    is_single = query.shape is not None and query.shape[2] == 1
    if is_single and unrepeated(value) is not None:
        refuse("one query and repeated keys, which RepeatedMatMulUbFusionPass does in less time")
    size, *others = axis_lengths((query, key, value), 3)
    if part is None and (not isinstance(size, int) or not (is_single or moves_query)):
        refuse("the query is not made of heads side by side")
    if not isinstance(size, int) or others != [size, size]:
        refuse("keys and values are not known to have heads of the same size")
    return [part or _move_heads(query, heads * size, new, is_single=is_single), key, value]


def _move_heads(query: Edge, width: int, new: Tape, *, is_single: bool) -> Edge:
    """[batch, heads, length, size] as [batch, length, heads · size]."""
    turned = query if is_single else new.Transpose(query, perm=SPLIT)
    length = 1 if is_single else 0
    return new.Reshape(turned, new.const(np.array([0, length, width], np.int64)))


def _is_single(m: Match) -> bool:
    """Whether a Transpose follows the queries, or they are not those that share a key."""
    return m.turn is not None or ungrouped(m.q) is None


class MultiHeadAttentionFusionPass(UBFusionPass):
    """Attention that is written out, its heads split and merged, becomes onnxruntime's
    MultiHeadAttention.

    before   all that FlashAttentionFusionV1 and V2 take, with a query that Reshape and Transpose
             split into heads and a result that Transpose and Reshape merge, at any opset; one query
             for each head needs no Transpose; hidden scores that a Where fills in with −∞ or a
             number far below zero, with or without a mask after it; a mask and a bias; Max of the
             masked scores and the lowest number; float16, with or without Casts around Softmax
    after    com.microsoft.MultiHeadAttention(q, k, v, mask): k and v with their heads side by side,
             or as they are; keys and values that are joined to those of the past are its second and
             third output; for float16 between Casts, which onnxruntime would put around each
             operator
    refuses  elements other than float32 and float16; in float16, keys and values of the past, and a
             mask that is added in float16; heads or batches that are not known to be the same, one
             head, one key for all heads; a scale that is not positive; a mask that is not known to
             fit the scores; a guard Where(IsNaN(…), 0, …) with a mask that may hold NaN or +∞
             because of the constants it is made of, or with one mask for each head that may hide a
             whole row by −∞; heads that are merged in an unknown way; one query and repeated keys,
             which RepeatedMatMulUbFusionPass does in less time; numbers filled in that may not
             hide, or a lower bound that visible scores may reach
    never    kept: rows of scores that are NaN or +∞, which the guard makes zero and the operator
             NaN; such a score in a place that Where fills in
    algebra  the definition of attention; what is added to a number far below zero is lost in
             rounding; a row without any key is NaN, or equal weights, as before; onnxruntime
             1.31.1, 12 heads of 64, one thread, ratio to the parts, S = 1 / 16 / 64 / 128 / 384:
             0.84 / 0.88 / 0.92 / 0.93 / 0.97 to 1.16; with a mask 0.90 / 1.00 / 0.97 / 0.97 / 0.96
             to 1.06; with two threads less; with a past of 16 / 128 and one query: 0.85 / 0.90,
             with two threads 0.80 / 0.89; 24 transformers: 0.99 of their time; float16, S = 16 /
             128 / 384: 0.95 / 0.92 / 0.78 without Casts, 0.96 / 0.96 / 0.86 with them
    source   onnxruntime's attention fusions for transformer models
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns("MultiHeadAttention", _multi_head, _is_single)
