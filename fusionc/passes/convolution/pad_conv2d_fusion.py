from fusionc.model.graph import Edge
from fusionc.passes.convolution._windows import joint_padding
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, maybe, op, refuse, rest, var

_PADDED = op.Pad(var("x"), rest("options"), _as="pad")
W = var("W")
others = rest("others")


def _padded_conv(m: Match, new: Tape, inputs: list[Edge | None], zero: float) -> Result:
    """The convolution that absorbs the Pad. Refuses a Pad that writes another number than
    `zero`.
    """
    rank = m.W.require_rank(least=3, of="the weights")
    pads, value = joint_padding(m.conv, m.pad, rank - 2)
    if value != zero:
        refuse("the padding is not zero")
    return new.node(m.conv.op, inputs, like=m.conv, pads=pads, auto_pad=None)


def _quantized(m: Match, new: Tape) -> Result:
    zero_point = m.conv.inputs[2] if len(m.conv.inputs) > 2 else None
    zero = None if zero_point is None else zero_point.constant()
    if zero_point is not None and (zero is None or zero.size != 1):
        refuse("the zero point is not a single number that is known before the model runs")
    number = 0 if zero is None else int(zero.reshape(-1)[0])
    return _padded_conv(m, new, [m.x, *m.conv.inputs[1:]], number)


class PadConv2dFusionPass(Pass):
    """Zero padding before a Conv becomes the padding of the Conv.

    before   Conv(Pad(x, pads, 0), W, B?) with one to three spatial axes, also depthwise or grouped;
             ConvInteger and QLinearConv with padding by the zero point of x
    after    Conv(x, W, B?), whose own pads are increased by those of the Pad
    refuses  padding by another number or in another mode; negative padding; padding of batch or
             channels; an image that is known to be empty; a Conv that computes its own padding
             (auto_pad SAME); a zero point that is not a single known number
    algebra  a Conv pads with zeros, like the Pad; a quantized zero is the zero point
    source   CANN's PadConv2dFusionPass and PadDepthwiseConv2dFusionPass: in ONNX, a depthwise
             convolution is a Conv with groups
    """

    aliases = ("PadDepthwiseConv2dFusionPass",)
    patterns = (
        Pattern("PadConv", op.Conv(_PADDED, W, maybe(var("B")), _as="conv")),
        Pattern("PadConvInteger", op.ConvInteger(_PADDED, W, others, _as="conv"), _quantized),
        Pattern(
            "PadQLinearConv",
            op.QLinearConv(_PADDED, var("scale"), var("zero"), W, others, _as="conv"),
            _quantized,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return _padded_conv(m, new, [m.x, m.W, m.B], 0)
