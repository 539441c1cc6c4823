from fusionc.passes._shared.skip_norms import gamma
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.written_norms import root_mean_square
from fusionc.passes.quantization._quantized_norms import move_scale, quantized
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, keep, op, var

x = var("x")


class RmsNormQuantFusionPass(UBFusionPass):
    """The scale of a quantization is folded into the scale of the RMS normalization before it.

    before   QuantizeLinear(RMSNormalization(x, scale), s, z?) with constant scale and s; below
             opset 23, the normalization is written out
    after    QuantizeLinear(RMSNormalization(x, scale / s), 1, z?)
    refuses  an s that is neither a power of two nor a vector of powers of two along the last axis;
             zero points that differ; a normalization that another node reads, too; elements other
             than float32; targets other than onnxruntime
    never    off by default, because a single s saves no time
    algebra  n·scale / s = n·(scale / s), bit by bit for powers of two
    source   MindSpore's rms_norm_quant_fusion, which rounds s and uses the first zero point for all
             elements
    """

    default = "off"
    aliases = ("rms_norm_quant_fusion",)
    patterns = (
        Pattern("RmsNormQuant", quantized(op.RMSNormalization(x, gamma, _as="norm"))),
        Pattern(
            "RmsNormWrittenQuant",
            quantized(op.Mul(keep(root_mean_square(x)), gamma, _as="product")),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        scale, one, zero = move_scale(m, new)
        if m.product is not None:
            (normalized,) = [value for value in m.product.inputs if value is not m.gamma]
            result = new.Mul(normalized, scale)
        else:
            result = new.RMSNormalization(m.norm.inputs[0], scale, like=m.norm)
        return new.QuantizeLinear(result, one, zero, like=m.quantize, axis=None)
