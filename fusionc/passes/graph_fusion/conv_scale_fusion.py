import numpy as np

from fusionc.passes.convolution import (
    bias_or_zero,
    out_channels,
    per_channel,
    scale_inputs,
    scale_outputs,
    weight_shape,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, refuse, var

x, W, B, c = var("x"), known("W"), maybe(const("B")), const("c")
_CONVOLUTION = op["Conv", "ConvTranspose"]


def _scale_after(m: Match, new: Tape) -> Result:
    shape, constant = weight_shape(m.W), m.c.constant().astype(np.float64)
    channels = out_channels(m.conv, shape)
    with np.errstate(divide="ignore"):
        factor = per_channel(1 / constant if m.captures.get("div") else constant, channels, len(shape))
    bias = m.B and new.const(bias_or_zero(m.B, channels) * factor, like=m.B)
    return new.node(m.conv.op, [m.x, scale_outputs(new, m.conv, m.W, factor), bias], like=m.conv)


def _scale_before(m: Match, new: Tape) -> Result:
    shape, constant = weight_shape(m.W), m.c.constant()
    channels = shape[1] * int(m.conv.attr("group"))
    factor = per_channel(constant, channels, len(shape))
    if m.x.rank != len(shape) or (constant.size > 1 and m.x.shape[1] != channels):
        refuse("the constant may enlarge what it is multiplied with")
    return new.Conv(m.x, scale_inputs(new, m.conv, m.W, factor), m.B, like=m.conv)


class ConvScaleFusionPass(Pass):
    """A constant factor around a convolution moves into its weights.

    before   Conv(x, W, B?)·c, Conv(x, W, B?)/c, the same with ConvTranspose; Conv(x·c, W, B?)
    after    Conv(x, W·c, B·c); before the convolution only W is scaled, along its input channels
    refuses  a constant that is not a scalar or one number for each channel; weights that a narrow type cannot hold;
             a factor that is not finite; c·x where c may be what gives x its rank or channels
    algebra  c·(W∗x + B) = (c·W)∗x + c·B; zero padding stays zero under a factor, so c·x moves in past padding too
    source   CANN's ConvScaleFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern("ConvMul", _CONVOLUTION(x, W, B, _as="conv") * c, _scale_after),
        Pattern("ConvDiv", op.Div(_CONVOLUTION(x, W, B, _as="conv"), c, _as="div"), _scale_after),
        Pattern("MulConv", op.Conv(x * c, W, maybe(var("B")), _as="conv"), _scale_before),
    )
