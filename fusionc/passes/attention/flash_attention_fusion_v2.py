from fusionc.passes.attention._standard_attention import patterns
from fusionc.passes.attention._written_attention import SCORES, operands
from fusionc.rewrite import Match, Pass, Result, Tape


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    return new.Attention(query, key, m.v, scale=scale)


class FlashAttentionFusionV2(Pass):
    """Attention without a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale)·v, the scale on q, on k, on both or on the product, as Mul or Div,
             k transposed by any Transpose or on [batch · heads, …]; also with Where(IsNaN(…), 0, …)
             around Softmax; around the operator, heads that Reshape and Transpose split, and keys
             and values that Expand repeats
    after    Attention(q, k, v), on [batch, length, heads · size] if the heads are split
    refuses  opset below 23; other ranks than 4; elements other than float32 (the operator rounds
             float16 between its steps); batches or heads that are not known to be the same; one
             head: the operator computes each head on one thread (1.6 to 1.9 of the time with two
             threads); a scale that is not positive
    never    kept: rows of scores that are NaN or +∞, which the guard makes zero and the operator
             NaN; empty tensors, which onnxruntime's operator rejects
    algebra  the definition of Attention; onnxruntime 1.31.1, ratio of CPU time to the parts, S = 1
             / 16 / 64 / 128 / 384 / 1024: 0.4 / 0.67 / 0.73 / 0.86 / 0.91 / 0.94; if the heads are
             not split by a Reshape 0.91 to 1.08; with the guard, S = 128 / 384: 0.72 / 0.65;
             0.34 to 0.80 if keys need no repeating
    source   MindSpore's FlashAttentionFusionV2, which has no mask
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES, _attention)
