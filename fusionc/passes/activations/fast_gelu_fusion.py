from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.written_gelu import any_gelu, bias_of
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, either, var
from fusionc.rewrite.pattern import ms

x = var("x")


def _biased(m: Match, new: Tape) -> Result:
    return new.node("FastGelu", bias_of(m), domain=MICROSOFT)


class FastGeluFusionPass(UBFusionPass):
    """GELU becomes onnxruntime's FastGelu, which computes Tanh instead of Erf.

    before   Gelu(x), Gelu(x + b), as operators or written out with Erf; BiasGelu(x, b)
    after    com.microsoft.FastGelu(x), FastGelu(x, b)
    refuses  elements other than float32, for which no kernel exists; a sum x + b if neither addend
             is known to have one number for each column
    never    off by default, because results differ by more than rounding
    algebra  Erf(x / √2) is about Tanh(√(2/π) · (x + 0.044715 x³)): the results differ by up to 5e-4
    source   CANN's FastGeluFusionPass; onnxruntime's GeluApproximation, also off by default
    """

    numerics = "approximate"
    default = "off"
    patterns = (
        Pattern(
            "FastGeluOfBias", either(any_gelu(x + var("b")), ms.BiasGelu(x, var("b"))), _biased
        ),
        Pattern("FastGelu", any_gelu(x)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.node("FastGelu", [m.x], domain=MICROSOFT)
