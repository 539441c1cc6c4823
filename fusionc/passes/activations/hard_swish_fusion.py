from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var

x = var("x")


def _is_standard(m: Match) -> bool:
    """Whether alpha is 1/6 and beta is 1/2."""
    return bool(abs(m.gate.attr("alpha") - 1 / 6) < 1e-6 and m.gate.attr("beta") == 0.5)


class HardSwishFusionPass(Pass):
    """x · HardSigmoid(x) becomes HardSwish.

    before   x · HardSigmoid(x) with alpha 1/6 and beta 1/2
    after    HardSwish(x)
    refuses  opset below 14; a target without a HardSwish kernel (onnxruntime replaces HardSwish by
             HardSigmoid and Mul)
    algebra  the definition of HardSwish
    source   CANN's HardSwishFusionPass. HardSigmoidFusionPass first replaces a HardSigmoid that is
             written out
    """

    numerics = "rounding"
    patterns = (Pattern("HardSwish", x * op.HardSigmoid(x, _as="gate"), where=_is_standard),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.HardSwish(m.x)
