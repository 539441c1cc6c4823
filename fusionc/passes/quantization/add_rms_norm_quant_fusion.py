from contextlib import suppress

from fusionc.passes._shared.skip_norms import SUM, epsilon_of_last, joined, patterns_of, rms_norm
from fusionc.passes.quantization._quantized_norms import move_scale, quantized
from fusionc.rewrite import Match, Refused, Result, Tape, UBFusionPass


class AddRmsNormQuantFusionPass(UBFusionPass):
    """A sum and its root mean square normalization become one operator before a QuantizeLinear.

    before   QuantizeLinear(RMSNormalization(x + y, scale), s, z?); below opset 23, the
             normalization is written out
    after    QuantizeLinear(com.microsoft.SkipSimplifiedLayerNormalization(x, y, scale), s, z?). If
             s is a power of two, or a vector of powers of two along the last axis, and all zero
             points are the same, s is folded into the scale
    refuses  everything that AddRmsNormFusionPass refuses; a normalization that another node reads,
             too
    never    off by default, because the operator takes longer (AddRmsNormFusionPass)
    algebra  n·scale / s = n·(scale / s), bit by bit for powers of two
    source   MindSpore's add_rms_norm_quant_fusion, which rounds s and uses the first zero point for
             all elements; TorchAir's npu_add_rms_norm_quant
    """

    numerics = "rounding"
    default = "off"
    aliases = ("add_rms_norm_quant_fusion", "npu_add_rms_norm_quant")
    is_pattern_fusion = True
    patterns = patterns_of("AddRmsNormQuant", quantized(rms_norm(SUM)))

    def rewrite(self, m: Match, new: Tape) -> Result:
        gamma = m.gamma
        scale = m.scale
        zero = m.zero
        with suppress(Refused):  # if refused, the scale stays in QuantizeLinear
            gamma, scale, zero = move_scale(m, new)
        results = joined(m, new, "SkipSimplifiedLayerNormalization", [gamma], epsilon_of_last(m))
        first, *others = results if isinstance(results, list) else [results]
        axis = {} if scale is m.scale else {"axis": None}
        return [new.QuantizeLinear(first, scale, zero, like=m.quantize, **axis), *others]
