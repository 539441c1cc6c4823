from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var

x = var("x")


class MishFusionPass(Pass):
    """x · Tanh(Softplus(x)) becomes Mish.

    before   x · Tanh(Softplus(x))
    after    Mish(x)
    refuses  opset below 18; a target without a Mish kernel (onnxruntime replaces Mish by Softplus,
             Tanh and Mul)
    algebra  the definition of Mish
    source   CANN's MishFusionPass
    """

    numerics = "rounding"
    patterns = (Pattern("Mish", x * op.Tanh(op.Softplus(x))),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Mish(m.x)
