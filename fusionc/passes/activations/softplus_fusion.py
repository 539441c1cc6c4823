from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var


class SoftplusFusionPass(Pass):
    """Log(1 + Exp(x)) becomes Softplus.

    before   Log(Exp(x) + 1)
    after    Softplus(x)
    refuses  only what every pass refuses
    never    off by default, because results change: if Exp(x) overflows, the original form returns
             infinity, and Softplus returns x
    algebra  the definition of Softplus
    source   CANN's SoftplusFusionPass
    """

    numerics = "approximate"
    default = "off"
    patterns = (Pattern("Softplus", op.Log(op.Exp(var("x")) + 1.0)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Softplus(m.x)
