from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes.attention import operands
from fusionc.passes.attention_operator import inside
from fusionc.passes.heads import heads_of, side_by_side
from fusionc.passes.multi_head import bias_of, number_of_heads, patterns, require_merged
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, refuse


def _multi_head(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    heads = number_of_heads(m, query)
    if heads_of(key) != heads_of(query):
        refuse("one key for all heads")
    require_merged(m, heads)
    parts = inside((query, key, m.v), (heads, heads, heads), new) or _with_whole_keys(query, key, m.v, heads, new)
    bias = bias_of(m, query, key, new)
    return new.node(
        "MultiHeadAttention", [*parts, None, None, bias], domain=MICROSOFT, num_heads=heads, scale=scale
    )  # fmt: skip


def _with_whole_keys(query: Edge, key: Edge, value: Edge, heads: int, new: Tape) -> list[Edge]:
    """Keys and values as they are, [batch, heads, length, size]: joined to those of the past, or repeated."""
    part = side_by_side(query, heads, new)
    if part is None:
        refuse("the query is not made of heads side by side")
    sizes = [None if one.shape is None else one.shape[3] for one in (query, key, value)]
    if not isinstance(sizes[0], int) or sizes != [sizes[0]] * 3:
        refuse("keys and values are not known to have heads of the same size")
    return [part, key, value]


class MultiHeadAttentionFusionPass(UBFusionPass):
    """Attention that is written out, its heads split and merged, becomes onnxruntime's MultiHeadAttention.

    before   all that FlashAttentionFusionV1 and V2 take, with a query that Reshape and Transpose split into heads and
             a result that Transpose and Reshape merge, at any opset
    after    com.microsoft.MultiHeadAttention(q, k, v, mask): k and v with their heads side by side, or as they are
    refuses  elements other than float32; heads or batches that are not known to be the same, one head, one key for
             all heads; a scale that is not positive; a mask that is not known to fit the scores; a guard
             Where(IsNaN(…), 0, …) with one mask for each head that may hide a whole row by −∞; a past of length 1,
             of which the transpositions are gone
    never    by default: with a mask and for long sequences it was no faster, some models of T5's kind slower; kept:
             rows of scores that are NaN or +∞, which the guard makes zero and the operator NaN
    algebra  the definition of attention; a row without any key is NaN, or equal weights, as it is before; onnxruntime
             1.31.1, 12 heads of 64, one thread, ratio to the parts, S = 1 / 16 / 64 / 128 / 384: 0.84 / 0.88 / 0.92 /
             0.93 / 0.97 to 1.16; with a mask 0.90 / 1.00 / 0.97 / 0.97 / 0.96 to 1.06; with two threads less
    source   onnxruntime's attention fusions for transformer models
    """

    numerics = "rounding"
    default = "off"
    patterns = patterns("MultiHeadAttention", _multi_head)
