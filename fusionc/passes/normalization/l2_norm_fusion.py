from fusionc.passes._shared.reduce_axes import one_axis
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, rest, var

x = var("x")
_SUM = op.ReduceSum(either(x * x, x**2.0), rest("axes"), _as="reduce")
_NORM = either(
    op.ReduceL2(x, rest("axes"), _as="reduce"),
    op.Sqrt(_SUM),
    op.Sqrt(op.ReduceSumSquare(x, rest("axes"), _as="reduce")),
)


class L2NormFusionPass(Pass):
    """Division by the Euclidean norm becomes LpNormalization.

    before   x / ReduceL2(x), x / √(sum(x²)); also with a lower bound for the norm: x / Clip(norm,
             min) or x / Max(norm, min)
    after    LpNormalization(x) with p = 2
    refuses  several axes; a norm without keepdims
    never    off by default, because results change: a vector of zeros gives zeros instead of NaN,
             and a vector whose norm is below the lower bound gets the norm 1
    algebra  the definition of LpNormalization
    source   CANN's L2NormFusionPass
    """

    numerics = "approximate"
    default = "off"
    patterns = (
        Pattern("L2NormClip", x / op.Clip(_NORM, const("least"))),
        Pattern("L2NormMax", x / op.Max(_NORM, const("least"))),
        Pattern("L2Norm", x / _NORM),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.LpNormalization(m.x, axis=one_axis(m.reduce, m.x), p=2)
