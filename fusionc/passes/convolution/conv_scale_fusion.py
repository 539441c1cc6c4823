import numpy as np

from fusionc.passes.convolution._channels import (
    bias_or_zero,
    out_channels,
    per_channel,
    scale_outputs,
    weight_shape,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, var

c = const("c")
_CONVOLUTION = op["Conv", "ConvTranspose"](var("x"), known("W"), maybe(const("B")), _as="conv")


def _scale_after(m: Match, new: Tape) -> Result:
    shape = weight_shape(m.W)
    constant = m.c.constant().astype(np.float64)
    channels = out_channels(m.conv, shape)
    factor = per_channel(1 / constant if m.div else constant, channels, len(shape))
    bias = m.B and new.const(bias_or_zero(m.B, channels) * factor, like=m.B)
    return new.node(m.conv.op, [m.x, scale_outputs(new, m.conv, m.W, factor), bias], like=m.conv)


class ConvScaleFusionPass(Pass):
    """A constant factor after a convolution is folded into its weights.

    before   Conv(x, W, B?)·c, Conv(x, W, B?)/c; the same with ConvTranspose
    after    Conv(x, W·c, B·c)
    refuses  a constant that has neither one number nor one number for each channel; weights that a
             narrow type cannot hold; a factor that is not finite
    algebra  c·(W∗x + B) = (c·W)∗x + c·B
    source   CANN's ConvScaleFusionPass
    """

    numerics = "rounding"
    aliases = ("AConv2dMulFusionPass",)
    patterns = (
        Pattern("ConvMul", _CONVOLUTION * c, _scale_after),
        Pattern("ConvDiv", op.Div(_CONVOLUTION, c, _as="div"), _scale_after),
    )
