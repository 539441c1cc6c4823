from fusionc.passes.convolution._windows import with_padding
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, maybe, op, refuse, rest, var


class PadConv2dFusionPass(Pass):
    """Zero padding before a Conv becomes the padding of the Conv.

    before   Conv(Pad(x, pads, 0), W, B?), 1-D to 3-D, depthwise and grouped
    after    Conv(x, W, B?) with the pads added to its own
    refuses  padding by another value or mode; negative padding; padding of batch or channels; a Conv that computes
             its own padding (auto_pad SAME)
    algebra  a Conv pads with zeros, hence both paddings are one
    source   CANN's PadConv2dFusionPass, and its PadDepthwiseConv2dFusionPass: in ONNX, a depthwise convolution is a
             Conv with groups
    """

    aliases = ("PadDepthwiseConv2dFusionPass",)
    patterns = (
        Pattern(
            "PadConv", op.Conv(op.Pad(var("x"), rest("options"), _as="pad"), var("W"), maybe(var("B")), _as="conv")
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        rank = m.W.rank
        if rank is None:
            refuse("the rank is unknown")
        pads, value = with_padding(m.conv, m.pad, rank - 2)
        if value != 0:
            refuse("the padding is not zero")
        return new.Conv(m.x, m.W, m.B, like=m.conv, pads=pads, auto_pad=None)
