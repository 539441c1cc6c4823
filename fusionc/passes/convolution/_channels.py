"""Weights and biases of convolutions, and the constants for each channel that are folded into them.

For g groups, C input and M output channels, the weights of a Conv are [M, C/g, …], those of a
ConvTranspose [C, M/g, …]. A pass that changes only the bias accepts any weights. A pass that
changes the weights requires weights that are stored in the model or computed from constants.
"""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.passes._shared.batchnorm import affine
from fusionc.passes._shared.constants import array_of, require_range, scaled
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Match, Result, Tape, const, maybe, op, refuse, var

CONVOLUTION = op["Conv", "ConvTranspose"](var("x"), var("W"), maybe(const("B")), _as="conv")


def weight_shape(weight: Edge) -> tuple[int, ...]:
    """The shape of the weights. Refuses if it is unknown."""
    return weight.require_sizes(least=3, of="the weights")


def out_channels(conv: Node, shape: tuple[int, ...]) -> int:
    """The number of output channels M, from the shape of the weights."""
    return shape[0] if conv.op == "Conv" else shape[1] * int(conv.attr("group"))


def scale_outputs(new: Tape, conv: Node, weight: Edge, factor: Array) -> Edge:
    """Weights with output channel m multiplied by factor[m].

    Refuses factors that would make the weights inexact.
    """
    if conv.op == "ConvTranspose":  # its weights have input and output channels exchanged
        return scale_inputs(new, conv, weight, factor)
    return scaled(new, weight, factor.reshape(-1, *[1] * (len(weight_shape(weight)) - 1)))


def scale_inputs(new: Tape, conv: Node, weight: Edge, factor: Array) -> Edge:
    """Weights of a Conv with input channel c multiplied by factor[c]."""
    shape = weight_shape(weight)
    return scaled(
        new,
        weight,
        _repeat_by_group(conv, shape, factor).reshape(*shape[:2], *[1] * (len(shape) - 2)),
    )


def _repeat_by_group(conv: Node, shape: tuple[int, ...], numbers: Array) -> Array:
    """One row for each output channel: the numbers of the input channels in its group."""
    groups = int(conv.attr("group"))
    return np.repeat(numbers.reshape(groups, shape[1]), shape[0] // groups, axis=0)


def shift_inputs(conv: Node, weight: Edge, addend: Array) -> Array:
    """The amount, in float64, by which each output channel of a Conv grows if addend[c] is added to
    each input channel c.

    Refuses a Conv with padding, because the addend is not added to the zeros of the padding.
    """
    shape = weight_shape(weight)
    if not np.isfinite(addend).all():
        refuse("the addend is not finite")
    if not addend.any():
        return np.zeros(shape[0])
    if not window_of(conv, len(shape) - 2).is_unpadded:
        refuse("padding would get the addend, too, and no longer be zero")
    weights = array_of(weight)
    require_range(weights)
    sums = weights.reshape(shape[0], shape[1], -1).sum(2, dtype=np.float64)
    return np.asarray((sums * _repeat_by_group(conv, shape, addend)).sum(1))


def bias_or_zero(bias: Edge | None, channels: int) -> Array:
    """The bias in float64, or zeros if `bias` is None. Refuses an invalid shape."""
    array = None if bias is None else bias.constant()
    if array is not None and array.shape != (channels,):
        refuse("the bias does not have exactly one number for each channel")
    return np.zeros(channels) if array is None else array.astype(np.float64)


def per_channel(array: Array, channels: int, rank: int, axis: int = 1) -> Array:
    """A constant as one float64 number for each channel of a tensor of this rank.

    `axis` is the axis of the channels. Refuses a constant that varies along another axis, or that
    has a higher rank than the tensor.
    """
    shape = (1,) * (rank - array.ndim) + array.shape
    varies = any(size != 1 for i, size in enumerate(shape) if i != axis)
    if array.ndim > rank or varies or shape[axis] not in (1, channels):
        refuse("the constant has neither one number nor one number for each channel")
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def scaled_convolution(m: Match, new: Tape) -> Result:
    """The convolution `m.conv` of `m.x`, `m.W` and `m.B`, with the BatchNormalization after it
    folded in: its factor into the weights, its addend into the bias.
    """
    channels = out_channels(m.conv, weight_shape(m.W))
    factor, addend = affine(m, channels)
    weight = scale_outputs(new, m.conv, m.W, factor)
    bias = new.const(
        bias_or_zero(m.B, channels) * factor + addend, dtype=m.W.dtype, like=m.B or m.offset
    )
    return new.node(m.conv.op, [m.x, weight, bias], like=m.conv)
