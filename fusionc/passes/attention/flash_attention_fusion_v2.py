from fusionc.passes.attention._standard_attention import patterns
from fusionc.passes.attention._written_attention import SCORES, operands
from fusionc.rewrite import Match, Pass, Result, Tape


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    return new.Attention(query, key, m.v, scale=scale)


class FlashAttentionFusionV2(Pass):
    """Attention without a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale)·v, with the scale on q, on k, on both or on the product, as Mul or
             Div; k transposed by any Transpose, or in [batch · heads, …]; also with
             Where(IsNaN(…), 0, …) around Softmax. Also a Reshape and a Transpose around it that
             split the heads, and an Expand that repeats keys and values
    after    Attention(q, k, v), on [batch, length, heads · size] if the heads are split
    refuses  an opset below 23; ranks other than 4; elements other than float32, because the
             operator rounds float16 between its steps; batches or heads that are not known to be
             the same; a single head, because the operator computes each head on one thread (if two
             threads are available, it takes 1.6 to 1.9 times as long); a scale that is not positive
    never    guarantees the same result for a row of scores with NaN or +∞ (Where(IsNaN) makes the
             row zero, and the operator makes it NaN), nor for empty tensors, which onnxruntime's
             operator rejects
    algebra  the definition of Attention. CPU time with onnxruntime 1.31.1, relative to the written
             form, S = 1 / 16 / 64 / 128 / 384 / 1024: 0.4 / 0.67 / 0.73 / 0.86 / 0.91 / 0.94; if no
             Reshape splits the heads: 0.91 to 1.08; with the guard, S = 128 / 384: 0.72 / 0.65; if
             keys need not be repeated: 0.34 to 0.80
    source   MindSpore's FlashAttentionFusionV2, which has no mask
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES, _attention)
