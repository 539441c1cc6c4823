from fusionc.passes.convolution._channels import CONVOLUTION, bias_or_zero, out_channels, per_channel, weight_shape
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op


class AABiasaddConvFusion(Pass):
    """A constant added to a convolution becomes its bias.

    before   Conv(x, W, B?) + c, Conv(x, W, B?) − c, the same with ConvTranspose; W may be computed
    after    Conv(x, W, B ± c)
    refuses  a constant that is not a scalar or one number for each channel; weights of an unknown shape; a bias that
             a narrow type cannot hold
    algebra  (W∗x + B) + c = W∗x + (B + c)
    source   CANN's AABiasaddConvFusion, which wants a convolution without bias; here a bias that exists is added to
    """

    numerics = "rounding"
    default = "must"
    aliases = ("Conv2DbpInputBiasAddFusionPass", "Conv3DbpInputBiasAddFusionPass")
    patterns = (
        Pattern("ConvAdd", CONVOLUTION + const("c")),
        Pattern("ConvSub", op.Sub(CONVOLUTION, const("c"), _as="sub")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape = weight_shape(m.W)
        channels = out_channels(m.conv, shape)
        addend = per_channel(m.c.constant(), channels, len(shape))
        bias = bias_or_zero(m.B, channels) + (-addend if m.sub else addend)
        return new.node(m.conv.op, [m.x, m.W, new.const(bias, dtype=m.W.dtype, like=m.c)], like=m.conv)
