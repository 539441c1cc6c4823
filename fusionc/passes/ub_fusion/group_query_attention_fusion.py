import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes.attention import operands
from fusionc.passes.attention_operator import inside
from fusionc.passes.heads import heads_of, length_of, unrepeated
from fusionc.passes.multi_head import bias_of, number_of_heads, patterns, require_merged
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, refuse

_STEP = 8  # sizes of heads that the operator takes are multiples of it


def _has_repeats(m: Match) -> bool:
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _group_query(m: Match, new: Tape) -> Result:
    query, repeated, scale = operands(m, new)
    key, value = unrepeated(repeated), unrepeated(m.v)
    heads, key_heads = number_of_heads(m, query), None if key is None else heads_of(key)
    if key is None or value is None or not isinstance(key_heads, int):
        refuse("the number of heads is unknown")
    if heads_of(value) != key_heads:
        refuse("key and value have different heads")
    shapes = [one.shape or (None,) * 4 for one in (query, key, value)]
    sizes, lengths = [shape[3] for shape in shapes], [shape[2] for shape in shapes]
    if not isinstance(sizes[0], int) or sizes[0] % _STEP or sizes != [sizes[0]] * 3:
        refuse(f"the size of heads is not known to be one multiple of {_STEP}")
    if lengths[0] is None or lengths != [lengths[0]] * 3:
        refuse("there are not known to be as many keys as queries")
    require_merged(m, heads)
    parts = inside((query, key, value), (heads, key_heads, key_heads), new)
    if parts is None:
        refuse("query, key and value are not made of heads side by side")
    bias = bias_of(m, query, key, new)
    inputs = [*parts, None, None, *_lengths(query, new), None, None, None, bias]
    return new.node(
        "GroupQueryAttention", inputs, domain=MICROSOFT, num_heads=heads, kv_num_heads=key_heads, scale=scale, causal=0
    )


def _lengths(query: Edge, new: Tape) -> list[Edge]:
    """What the operator reads the lengths of the keys from: one less for each of a batch, and their maximum."""
    batch, total = length_of(query, 0, new), new.Cast(length_of(query, 2, new), to=TensorProto.INT32)
    last = new.Sub(total, new.const(np.array([1], np.int32)))
    return [new.Expand(last, batch), total]


class GroupQueryAttentionFusionPass(UBFusionPass):
    """Attention with fewer heads of keys than of queries becomes onnxruntime's GroupQueryAttention.

    before   what MultiHeadAttentionFusionPass takes, with keys and values that Unsqueeze, Expand and Reshape repeat
    after    com.microsoft.GroupQueryAttention(q, k, v, mask), not causal: the mask says what is hidden
    refuses  what MultiHeadAttentionFusionPass refuses; heads of which the size is no multiple of 8, or not the same;
             another number of keys than of queries, as with those of the past: the operator then has its own rules
             for batches
    never    by default, until more models have been measured; kept: what MultiHeadAttentionFusionPass does not keep
    algebra  the definition of attention; keys and values are read several times instead of repeated; onnxruntime
             1.31.1, a Llama of 4 layers with its rotary embeddings, ratio of the CPU time of the whole model, S = 16 /
             128 / 384: 0.99 / 0.99 / 0.89
    source   onnxruntime's fusions for decoder models
    """

    numerics = "rounding"
    default = "off"
    patterns = patterns("GroupQueryAttention", _group_query, _has_repeats)
