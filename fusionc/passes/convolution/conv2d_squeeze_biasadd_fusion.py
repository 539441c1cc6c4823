import math

from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.passes.convolution._channels import (
    CONVOLUTION,
    bias_or_zero,
    out_channels,
    per_channel,
    weight_shape,
)
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    not_constant,
    op,
    refuse,
    rest,
)
from fusionc.shapes.expressions import is_static

_MOVED = op["Squeeze", "Reshape", "Flatten"](CONVOLUTION, rest("options"), _as="move")


def _squeezed(m: Match, rank: int) -> int:
    axes = axes_of(m.move)
    shape = m.conv.outputs[0].shape
    if axes is None:
        if any(m.options) or not is_static(shape):
            refuse(not_constant("the axes"))
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    axes = [axis % rank for axis in axes]
    if 1 in axes:
        refuse("the channels are squeezed")
    return 0 if 0 in axes else 1


def _reshaped(m: Match, channels: int) -> int:
    old_shape = m.conv.outputs[0].shape
    shape = m.move.outputs[0].shape
    if (
        old_shape is None
        or shape is None
        or len(shape) < 2
        or shape[1] != channels
        or channels == 0
    ):
        refuse("the Reshape is not known to keep the channels")
    images = (*old_shape[2:], *shape[2:])
    same_images = all(isinstance(d, int) and d > 0 for d in images) and math.prod(
        old_shape[2:]
    ) == math.prod(shape[2:])
    if not same_images and (old_shape[0] is None or old_shape[0] != shape[0]):
        refuse("the Reshape is not known to keep the channels")
    return 1


class Conv2DSqueezeBiasaddFusionPass(Pass):
    """A constant that is added after a Squeeze or Reshape of a convolution becomes its bias.

    before   Squeeze(Conv(x, W, B?)) + c, or − c; the same with Reshape and Flatten, and with
             ConvTranspose
    after    Squeeze(Conv(x, W, B ± c))
    refuses  a Squeeze that removes the channels, or whose axes are unknown; a Reshape that is not
             known to keep batch and channels as its first two axes; a constant that has neither one
             number nor one number for each channel
    algebra  adding one number to all elements of a channel commutes with moving the elements; (W∗x
             + B) + c = W∗x + (B + c)
    source   CANN's Conv2DSqueezeBiasaddFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern("ConvSqueezeAdd", _MOVED + const("c")),
        Pattern("ConvSqueezeSub", op.Sub(_MOVED, const("c"), _as="sub")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape = weight_shape(m.W)
        channels = out_channels(m.conv, shape)
        axis = _squeezed(m, len(shape)) if m.move.op == "Squeeze" else _reshaped(m, channels)
        rank = m.move.outputs[0].require_rank(least=axis + 1)
        addend = per_channel(m.c.constant(), channels, rank, axis)
        bias = bias_or_zero(m.B, channels) + (-addend if m.sub else addend)
        conv = new.node(
            m.conv.op, [m.x, m.W, new.const(bias, dtype=m.W.dtype, like=m.c)], like=m.conv
        )
        return new.node(m.move.op, [conv, *m.options], like=m.move)
