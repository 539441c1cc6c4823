from fusionc.passes._shared.skip_norms import SUM, epsilon_of_last, joined, patterns_of, rms_norm
from fusionc.rewrite import Match, Result, Tape, UBFusionPass


class AddRmsNormFusionPass(UBFusionPass):
    """A sum and its root mean square normalization become onnxruntime's
    SkipSimplifiedLayerNormalization.

    before   RMSNormalization(x + y, scale) over the last axis; below opset 23, the normalization
             written out in the forms of RmsNormFusionPass
    after    com.microsoft.SkipSimplifiedLayerNormalization(x, y, scale). If the sum has other
             users, it is the fourth output
    refuses  ranks other than 2 and 3; shapes that are not known to be equal (but the batch axis of
             y may have size 1 or be missing); a scale that does not have exactly one number for
             each element of the last axis; elements other than float32 and float16; a written-out
             normalization that computes in float16
    never    off by default, because the operator takes at least 1.05 to 2.5 times as long as Add
             and the normalization
    algebra  the definition of SkipSimplifiedLayerNormalization
    source   MindSpore's add_rms_norm_fusion; onnxruntime has the operator, but no pass that creates
             it
    """

    numerics = "rounding"
    default = "off"
    aliases = ("add_rms_norm_fusion", "InplaceAddRmsNormFusionPass", "AddRmsNormFusionGraphPass")
    patterns = patterns_of("AddRmsNorm", rms_norm(SUM))

    def rewrite(self, m: Match, new: Tape) -> Result:
        return joined(m, new, "SkipSimplifiedLayerNormalization", [m.gamma], epsilon_of_last(m))
