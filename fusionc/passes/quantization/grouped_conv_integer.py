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
    """Refuse a convolution with one group, and sums that a convolution of floats would round."""
    require_onnxruntime(m)
    if m.conv.attr("group", 1) == 1:
        refuse("the convolution has one group")
    if m.q.elem_type not in OPPOSITE:
        refuse("the element type is unknown")
    if math.prod(dims_of(m.W)[1:]) * _LARGEST**2 >= _EXACT:
        refuse("the sum may need more than 24 bits")
    if m.z is not None and m.z.shape != ():
        refuse("not one zero point")


def _real_weights(m: Match) -> Array:
    """The weights without their zero point."""
    zero = np.zeros((), np.int32) if m.w is None else array_of(m.w).astype(np.int32)
    if zero.size != 1:
        refuse("not one zero point")
    return (array_of(m.W).astype(np.int32) - zero.reshape(())).astype(np.float32)


def _scaled(m: Match, new: Tape) -> Result:
    """The convolution with its scales and its addend."""
    _require_groups(m)
    if m.s.shape != () or m.s.elem_type != TensorProto.FLOAT:
        refuse("not one scale in float32")
    weights = _real_weights(m)
    scale = array_of(one_for_each_channel(m.t, m.W, new))
    scale = scale.reshape((-1, *(1,) * (weights.ndim - 1))) if scale.ndim else scale
    data = new.DequantizeLinear(m.q, m.s, m.z)
    addend = bias_of_channels(m.bias, m.W, new)
    return new.Conv(data, new.const(weights * scale, dtype=np.float32), addend, like=m.conv)


class GroupedConvIntegerPass(UBFusionPass):
    """A ConvInteger with groups becomes a Conv of floats.

    before   Cast(ConvInteger(q, W, z, w) with group > 1, to = float), with or without a scale s·t,
             and with or without a bias after it
    after    Conv(DequantizeLinear(q, s, z), (W − w)·t, bias), with 1 for missing scales
    refuses  one group; sums of so many products that they may not fit into the 24 bits of float32;
             weights that are not constant; more than one zero point, or scale of the data; scales
             of the weights and a bias that do not have exactly one number for each channel; targets other than
             onnxruntime
    algebra  Σ (q − z)·(W − w) with K products is an integer of at most K·255², in any order, and
             s·t·Σ is rounded; padding is q = z in both
    source   onnxruntime's quantize_dynamic; it computes groups of ConvInteger one after the other:
             a depthwise convolution of 144 channels takes 0.3 of the time as Conv
    """

    numerics = "rounding"
    # after the rewrite, an infinite scale is in each product, and ∞ − ∞ is NaN
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
