from fusionc.passes.convolution._channels import (
    CONVOLUTION,
    bias_or_zero,
    out_channels,
    per_channel,
    weight_shape,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, refuse, rest, var

_UNBIASED = op["Conv", "ConvTranspose"](var("x"), var("W"), _as="conv")
_SPREAD = keep(op["Unsqueeze", "Reshape"](var("b"), rest("options"), _as="spread"))


def _vector(m: Match, new: Tape) -> Result:
    shape = weight_shape(m.W)
    spread = m.spread.outputs[0].shape
    channels = out_channels(m.conv, shape)
    images = (1,) * (len(shape) - 2)
    if m.W.is_constant:
        # With a computed bias, onnxruntime leaves its blocked layout.
        refuse("with constant weights, onnxruntime's blocked layout needs a constant bias")
    if m.b.shape != (channels,) or spread not in ((channels, *images), (1, channels, *images)):
        refuse("the addend is not known to have one number for each channel")
    return new.node(m.conv.op, [m.x, m.W, m.b], like=m.conv)


class AABiasaddConvFusion(Pass):
    """A constant that is added to a convolution becomes its bias.

    before   Conv(x, W, B?) + c, Conv(x, W, B?) − c; the same with ConvTranspose; W may be computed;
             Conv(x, W) + Unsqueeze(b) or Reshape(b), where b is a vector along the channels
    after    Conv(x, W, B ± c); Conv(x, W, b)
    refuses  a constant that has neither one number nor one number for each channel; weights of an
             unknown shape; a bias that a narrow type cannot hold; a vector b that is not constant
             although the weights are, because onnxruntime would leave its blocked layout
    algebra  (W∗x + B) + c = W∗x + (B + c)
    source   CANN's AABiasaddConvFusion, which needs a convolution without bias; here the constant
             may also be added to an existing bias
    """

    numerics = "rounding"
    default = "must"
    aliases = ("Conv2DbpInputBiasAddFusionPass", "Conv3DbpInputBiasAddFusionPass")
    patterns = (
        Pattern("ConvAdd", CONVOLUTION + const("c")),
        Pattern("ConvSub", op.Sub(CONVOLUTION, const("c"), _as="sub")),
        Pattern("ConvAddVector", _UNBIASED + _SPREAD, _vector),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape = weight_shape(m.W)
        channels = out_channels(m.conv, shape)
        addend = per_channel(m.c.constant(), channels, len(shape))
        bias = bias_or_zero(m.B, channels) + (-addend if m.sub else addend)
        return new.node(
            m.conv.op, [m.x, m.W, new.const(bias, dtype=m.W.dtype, like=m.c)], like=m.conv
        )
