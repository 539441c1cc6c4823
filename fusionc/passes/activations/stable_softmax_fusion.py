from fusionc.passes.activations._softmax_axis import softmax_axis
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, rest, var

x = var("x")
_EXP = op.Exp(x)
_SUM = op.ReduceSum(_EXP, rest("axes"), _as="sum")


def _log_softmax(m: Match, new: Tape) -> Result:
    return new.LogSoftmax(m.x, like=m.softmax)


class StableSoftmaxFusionPass(Pass):
    """Forms of Softmax that may overflow become Softmax and LogSoftmax, which do not overflow.

    before   Exp(x) / ReduceSum(Exp(x)), Exp(x) · Reciprocal(ReduceSum(Exp(x))); Log(Softmax(x))
    after    Softmax(x); LogSoftmax(x)
    refuses  a reduction over several axes, or without keepdims; below opset 13, an axis other than
             the last
    never    off by default, because results change: if Exp overflows, the original form returns
             NaN; if Softmax underflows, Log returns −∞. The new operators return the correct number
    algebra  exp(x) / Σ exp(x) = exp(x − c) / Σ exp(x − c) for every c
    source   CANN's SoftmaxFusionPass, for its form without the maximum; onnx-optimizer's
             fuse_consecutive_log_softmax
    """

    numerics = "approximate"
    default = "off"
    patterns = (
        Pattern("SoftmaxWithoutMax", either(_EXP / _SUM, _EXP * op.Reciprocal(_SUM))),
        Pattern("LogOfSoftmax", op.Log(op.Softmax(x, _as="softmax")), _log_softmax),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Softmax(m.x, axis=softmax_axis(m.x, m.sum))
