from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from fusionc.model.tensors import Array
from fusionc.operators.signedness import OPPOSITE
from fusionc.passes._shared.constants import array_of, dims_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.quantization._scaled_conv_integer import (
    SCALED,
    SUM,
    bias,
    bias_of_channels,
    one_for_each_channel,
)
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, refuse

_LARGEST = 255  # the largest difference of an 8-bit integer and a zero point
_EXACT = 1 << 24  # float32 represents all integers up to this size exactly


def _require_groups(m: Match) -> None:
    """Refuse a convolution with one group, sums that may need more than the 24 bits of float32, and
    data whose zero point is not known to be a scalar.
    """
    require_onnxruntime(m)
    if m.conv.attr("group", 1) == 1:
        refuse("the convolution has one group")
    if m.q.elem_type not in OPPOSITE:
        refuse("the element type is unknown")
    if math.prod(dims_of(m.W)[1:]) * _LARGEST**2 >= _EXACT:
        refuse("the sum may need more than 24 bits")
    if m.z is not None and m.z.shape != ():
        refuse("the zero point of the data is not known to be a scalar")


def _real_weights(m: Match) -> Array:
    """The weights minus their zero point, as float32. Refuses several zero points."""
    zero = np.zeros((), np.int32) if m.w is None else array_of(m.w).astype(np.int32)
    if zero.size != 1:
        refuse("the weights have more than one zero point")
    return (array_of(m.W).astype(np.int32) - zero.reshape(())).astype(np.float32)


def _scaled(m: Match, new: Tape) -> Result:
    """A Conv in place of a ConvInteger, its scales and its addend."""
    _require_groups(m)
    if m.s.shape != () or m.s.elem_type != TensorProto.FLOAT:
        refuse("the scale of the data is not known to be a float32 scalar")
    weights = _real_weights(m)
    scale = array_of(one_for_each_channel(m.t, m.W, new))
    scale = scale.reshape((-1, *(1,) * (weights.ndim - 1))) if scale.ndim else scale
    data = new.DequantizeLinear(m.q, m.s, m.z)
    addend = bias_of_channels(m.bias, m.W, new)
    return new.Conv(data, new.const(weights * scale, dtype=np.float32), addend, like=m.conv)


class GroupedConvIntegerPass(UBFusionPass):
    """A ConvInteger with groups becomes a floating-point Conv.

    before   Cast(ConvInteger(q, W, z, w) with group > 1, to = float), perhaps multiplied by the
             scales s·t, and then perhaps with an added bias
    after    Conv(DequantizeLinear(q, s, z), (W − w)·t, bias); missing scales are 1
    refuses  a convolution with one group; sums of so many products that they may need more than the
             24 bits of float32; weights that are not constant, or have more than one zero point;
             data whose scale or zero point is not known to be a scalar; scales of the weights and a
             bias that have neither one number nor one number for each channel; targets other than
             onnxruntime
    algebra  Σ s(q−z)·t(W−w) = s·t·Σ (q−z)·(W−w). Without scales, all terms and sums are integers of
             at most K·255² for K products in a sum, and they are exact in float32. With scales,
             each s(q−z), each t(W−w), each product and each sum is rounded. Padding is q = z
             before, which is 0 after
    source   onnxruntime's quantize_dynamic. onnxruntime computes the groups of a ConvInteger one
             after the other: as Conv, a depthwise convolution of 144 channels takes 0.3 of the time
    """

    numerics = "rounding"
    # After the rewrite, an infinite scale multiplies each term of a sum, and ∞ − ∞ is NaN.
    is_for_finite = True
    patterns = (
        Pattern("ScaledGroupedConvIntegerAdd", SCALED + bias, _scaled),
        Pattern("ScaledGroupedConvInteger", SCALED, _scaled),
        Pattern("GroupedConvInteger", SUM),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        _require_groups(m)
        weights = new.const(_real_weights(m))
        data = new.DequantizeLinear(m.q, new.const(np.asarray(1, np.float32)), m.z)
        return new.Conv(data, weights, like=m.conv)
