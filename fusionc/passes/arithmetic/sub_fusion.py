from fusionc.passes._shared.constant_arithmetic import zeros
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, var

x = var("x")


class SubFusionPass(Pass):
    """A value minus itself becomes zeros.

    before   x − x
    after    ConstantOfShape of a constant shape if the shape of x is known, else
             ConstantOfShape(Shape(x))
    refuses  an unknown element type
    algebra  x − x = 0 for finite numbers; for NaN and infinities the difference is NaN, so the pass
             is off by default
    source   CANN's SubFusionPass
    """

    numerics = "approximate"
    default = "off"
    patterns = (Pattern("SubSame", x - x),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return zeros(new, m.x)
