from fusionc.passes.activations._softmax_axis import softmax_axis
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, rest, var

x = var("x")
_BELOW = op.Sub(x, op["ReduceMax", "GlobalMaxPool"](x, rest("largest_axes"), _as="largest"))
_EXP = op.Exp(_BELOW)
_SUM = op.ReduceSum(_EXP, rest("sum_axes"), _as="sum")


def _log_softmax(m: Match, new: Tape) -> Result:
    return new.LogSoftmax(m.x, axis=softmax_axis(m.x, m.largest, m.sum))


class SoftmaxSmallOpFusionPass(Pass):
    """Softmax that is written out becomes Softmax.

    before   e / ReduceSum(e) or e · Reciprocal(ReduceSum(e)) with e = Exp(x − ReduceMax(x));
             (x − ReduceMax(x)) − Log(ReduceSum(e))
    after    Softmax(x); LogSoftmax(x)
    refuses  reductions over several axes, over different axes, or without keepdims; below opset 13,
             an axis other than the last
    never    forms without the maximum, because they overflow for large numbers:
             StableSoftmaxFusionPass replaces them
    algebra  the definitions of Softmax and LogSoftmax
    source   CANN's SoftmaxFusionPass; MindSpore's softmax_small_op_fusion; tf2onnx writes Softmax
             this way
    """

    numerics = "rounding"
    aliases = ("SoftmaxFusionPass",)
    patterns = (
        Pattern("Softmax", either(_EXP / _SUM, _EXP * op.Reciprocal(_SUM))),
        Pattern("LogSoftmax", _BELOW - op.Log(_SUM), _log_softmax),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Softmax(m.x, axis=softmax_axis(m.x, m.largest, m.sum))
