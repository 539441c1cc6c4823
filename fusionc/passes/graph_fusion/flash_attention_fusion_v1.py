from fusionc.passes.attention import SCORES, operands
from fusionc.passes.attention_operator import patterns
from fusionc.rewrite import Match, Pass, Result, Tape


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    return new.Attention(query, key, m.v, scale=scale)


class FlashAttentionFusionV1(Pass):
    """Attention without a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale)·v, the scale on q, on k, on both or on the product, as Mul or Div, k transposed by any
             Transpose or on [batch · heads, …]; also with Where(IsNaN(…), 0, …) around Softmax; heads that are split
             by Reshape and Transpose, and keys and values that are repeated by Expand, around the operator
    after    Attention(q, k, v), on [batch, length, heads · size] where the heads are split
    refuses  opset below 23; other ranks than 4; elements other than float32 (the operator rounds float16 between its
             steps); batches or heads that are not known to be the same; one head: the operator computes each head on
             one thread (1.6 to 1.9 of the time with two threads); a scale that is not positive
    never    scores that are NaN or +∞ are made zero by the guard and NaN by the operator; onnxruntime's kernel takes no
             empty tensors
    algebra  the definition of Attention
    source   MindSpore's FlashAttentionFusionV2, which has no mask
    """

    numerics = "rounding"
    patterns = patterns(SCORES, _attention)
