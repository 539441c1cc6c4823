from fusionc.passes._shared.written_gelu import written_gelu, written_tanh_gelu
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, var

x = var("x")


def _tanh(m: Match, new: Tape) -> Result:
    return new.Gelu(m.x, approximate="tanh")


class GeluFusionPass(Pass):
    """GELU that is written out becomes Gelu.

    before   x · (1 + Erf(x / √2)) / 2 with its factors in any order, x · (Erf(x / √2) / 2 + 1/2);
             x · (1 + Tanh(√(2/π) · (x + 0.044715 x³))) / 2, with x³ as Pow or Mul, and with or
             without x factored out of the sum
    after    Gelu(x) for Erf; Gelu(x, approximate="tanh") for Tanh
    refuses  opset below 20
    algebra  the definition of Gelu
    source   CANN's GeluFusionPass; onnxruntime itself finds the form with Erf when it loads a
             model, but not the form with Tanh
    """

    numerics = "rounding"
    patterns = (
        Pattern("Gelu", written_gelu(x)),
        Pattern("GeluTanh", written_tanh_gelu(x), _tanh),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Gelu(m.x)
