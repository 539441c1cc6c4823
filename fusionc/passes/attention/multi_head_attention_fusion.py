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
from fusionc.runtime.cpu_kernels import has_cpu_kernel


def _multi_head(m: Match, new: Tape) -> AttentionResult:
    value = value_of(m)
    query, key, scale = operands(m, new, key_of(m), value, takes_half=True)
    if is_half(m, query, key, value):
        return _multi_head_of_halves(m, new, query, key, value, scale)
    heads = number_of_heads(m)
    if heads_of(key) != heads_of(query):
        refuse("all heads share one key")
    attributes: dict[str, Any] = {"num_heads": heads, "scale": scale}
    joined = None if m.keys is None else pasts_of(query, key, value)
    if joined is None:
        parts = _operator_inputs(query, key, value, heads, new)
        inputs = [*parts, None, None, added_mask(m, query, key, new)]
        return new.node("MultiHeadAttention", inputs, domain=MICROSOFT, **attributes), None, None
    pasts, (new_key, new_value) = joined
    merged = merged_operands((query, new_key, new_value), (heads, heads, heads), new)
    if merged is None:
        refuse("query, key and value do not have merged heads")
    require_same_past(pasts)
    inputs = [*merged, None, None, added_mask(m, query, key, new), *pasts]
    result, keys, values = new.node(
        "MultiHeadAttention", inputs, domain=MICROSOFT, outputs=3, **attributes
    )
    return result, keys, values


def _operator_inputs(
    query: Edge, key: Edge, value: Edge, heads: int, new: Tape, *, moves_query: bool = False
) -> list[Edge]:
    """Query, key and value with merged heads. If key and value cannot be merged, only the query has
    merged heads.
    """
    merged = merged_operands((query, key, value), (heads, heads, heads), new)
    return merged or _whole_keys(query, key, value, heads, new, moves_query=moves_query)


def _multi_head_of_halves(
    m: Match, new: Tape, query: Edge, key: Edge, value: Edge, scale: float
) -> AttentionResult:
    """Attention in float16 as an operator in float32, with Casts before and after it. Without this
    rewrite, onnxruntime inserts Casts around each of the original operators.
    """
    hides = any(edge is not None for edge in (m.mask, m.shown, m.hidden, m.bias))
    if m.keys is not None:
        refuse("keys and values of the past are float16")
    is_widened = m.widened is not None or m.widened_late is not None
    if hides and not is_widened and _adds_in_float16(m):
        refuse("a mask is added in float16, where it may round the scores of a row away")
    heads = number_of_heads(m)
    if heads_of(key) != heads_of(query):
        refuse("all heads share one key")
    parts = _operator_inputs(query, key, value, heads, new, moves_query=True)
    wide = [new.Cast(part, to=TensorProto.FLOAT) for part in parts]
    inputs = [*wide, None, None, added_mask(m, query, key, new)]
    result = new.node("MultiHeadAttention", inputs, domain=MICROSOFT, num_heads=heads, scale=scale)
    return new.Cast(result, to=TensorProto.FLOAT16), None, None


def _adds_in_float16(m: Match) -> bool:
    """Whether onnxruntime rounds sums to float16. If it lacks a float16 kernel for Add, it adds in
    float32, and Softmax reads the float32 sum.
    """
    return has_cpu_kernel("Add", "", m.opset, TensorProto.FLOAT16, TensorProto.FLOAT16)


def _whole_keys(
    query: Edge, key: Edge, value: Edge, heads: int, new: Tape, *, moves_query: bool
) -> list[Edge]:
    """The query with merged heads, and key and value unchanged as [batch, heads, length, size],
    because key and value may be joined to a past, or repeated.

    If `moves_query`, a new Transpose of the query is allowed.
    """
    part = merged_heads(query, heads, new)
    is_single = query.shape is not None and query.shape[2] == 1
    if is_single and unrepeated(value) is not None:
        refuse("RepeatedMatMulUbFusionPass is faster for one query and repeated keys")
    size, *others = axis_lengths((query, key, value), 3)
    if part is None and (not isinstance(size, int) or not (is_single or moves_query)):
        refuse("the query does not have merged heads")
    if not isinstance(size, int) or others != [size, size]:
        refuse("keys and values are not known to have heads of the same size")
    return [part or _move_heads(query, heads * size, new, is_single=is_single), key, value]


def _move_heads(query: Edge, width: int, new: Tape, *, is_single: bool) -> Edge:
    """A value [batch, heads, length, size] as [batch, length, heads · size], by a new Transpose, or
    without one for a single query.
    """
    turned = query if is_single else new.Transpose(query, perm=SPLIT)
    length = 1 if is_single else 0
    return new.Reshape(turned, new.const(np.array([0, length, width], np.int64)))


def _is_single(m: Match) -> bool:
    """Whether a Transpose merges the heads, or the heads of the query are not grouped."""
    return m.turn is not None or ungrouped(m.q) is None


class MultiHeadAttentionFusionPass(UBFusionPass):
    """Attention that is written out, with its heads split and merged, becomes onnxruntime's
    MultiHeadAttention.

    before   all forms that FlashAttentionFusionV1 and V2 find, at any opset, with a query whose
             heads Reshape and Transpose split, and a result whose heads Transpose and Reshape merge
             (without Transpose for one query); scores that a Where hides by −∞ or a number far
             below zero, with or without another mask; a mask and a bias; Max of the masked scores
             and the lowest number; float16, with or without Casts around Softmax
    after    com.microsoft.MultiHeadAttention(q, k, v, mask), with the heads of k and v merged or
             split. Keys and values that are joined to those of the past are its second and third
             output. For float16, Casts surround the operator; onnxruntime would insert Casts around
             each of the original operators
    refuses  elements other than float32 and float16; in float16, keys and values of the past, and a
             mask if onnxruntime has a kernel that adds in float16 (as on Arm), because that sum may
             round the scores of a row away; heads or batches that are not known to be the same; a
             single head; one key for all heads; a scale that is not positive; a mask that is not
             known to broadcast to the scores; a guard Where(IsNaN(…), 0, …) if the mask may contain
             NaN or +∞ because of its constants, or if each head has its own mask, which may hide a
             whole row by −∞; heads that are merged in an unknown way; one query and repeated keys,
             for which RepeatedMatMulUbFusionPass is faster; numbers of a Where that may not hide a
             key; a lower bound that may change visible scores
    never    guarantees the same result for a row of scores with NaN or +∞: the guard Where(IsNaN)
             makes the row zero, and the operator makes it NaN. A score that Where replaces may
             differ, too, if it is NaN or +∞
    algebra  the definition of attention; rounding absorbs any score that is added to a number far
             below zero; a row without visible keys is NaN, or has equal weights, as before. Time
             with onnxruntime 1.31.1, 12 heads of size 64, one thread, relative to the written form,
             S = 1 / 16 / 64 / 128 / 384: 0.84 / 0.88 / 0.92 / 0.93 / 0.97 to 1.16; with a mask 0.90
             / 1.00 / 0.97 / 0.97 / 0.96 to 1.06; with two threads, less time; with one query and a
             past of 16 / 128: 0.85 / 0.90, with two threads 0.80 / 0.89; 24 transformers: 0.99 of
             their time; float16, S = 16 / 128 / 384: 0.95 / 0.92 / 0.78 without Casts, 0.96 / 0.96
             / 0.86 with Casts
    source   onnxruntime's attention fusions for transformer models
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns("MultiHeadAttention", _multi_head, _is_single)
