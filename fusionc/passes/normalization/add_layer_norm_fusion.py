from fusionc.passes._shared.skip_norms import SUM, epsilon_of_last, joined, layer_norm, patterns_of
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, const, op, var

_BIASED = op.Add(op.Add(var("x"), var("skip")), const("bias"), _as="sum")


class AddLayerNormFusionPass(UBFusionPass):
    """A sum and its layer normalization become onnxruntime's SkipLayerNormalization.

    before   LayerNormalization(x + y, scale, offset?) over the last axis; also LayerNormalization(x
             + y + bias, …) with a constant bias
    after    com.microsoft.SkipLayerNormalization(x, y, scale, offset?, bias?). If the sum has other
             users, it is the fourth output
    refuses  ranks other than 2 and 3; shapes that are not known to be equal (but the batch axis of
             y may have size 1 or be missing); a scale, an offset or a bias that does not have
             exactly one number for each element of the last axis; elements other than float32 and
             float16; a LayerNormalization whose other outputs, mean or deviation, are used
    never    off by default, because the operator takes 2.4 to 6.7 times as long as Add and
             LayerNormalization
    algebra  the definition of SkipLayerNormalization. The operator computes the variance as
             mean(x²) − mean(x)², which is up to 14 times less exact than LayerNormalization if the
             mean is far larger than the deviation; onnxruntime's own fusion does the same. The
             operator adds the bias last, so a bias that the model adds before y keeps its own Add,
             because the sum would be rounded differently in another order. If the mean is far
             larger than the deviation, the normalization would amplify this difference to up to
             0.2 % of an element
    source   MindSpore's add_layer_norm_fusion and its two variants; onnxruntime's
             SkipLayerNormFusion, which requires a sum without other users
    """

    numerics = "rounding"
    default = "off"
    aliases = (
        "add_layer_norm_fusion",
        "add_layer_norm_v3_fusion",
        "add_layer_norm_ext_fusion",
        "AddLayerNormV3FusionPass",
        "ZInplaceAddLayerNormFusionPass",
    )
    patterns = (
        *patterns_of("AddBiasLayerNorm", layer_norm(_BIASED), _BIASED),
        *patterns_of("AddLayerNorm", layer_norm(SUM)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        vectors = [m.gamma, m.beta, m.bias]
        return joined(m, new, "SkipLayerNormalization", vectors, epsilon_of_last(m))
