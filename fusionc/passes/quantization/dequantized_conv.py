from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.group_parts import grade
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.operators.integer_operators import INTEGERS
from fusionc.operators.signedness import MOST_PRODUCTS, OPPOSITE, SIGNED, UNSIGNED, opposite
from fusionc.passes._shared.constants import SHARED, array_of, dims_of, would_double
from fusionc.passes._shared.target import require_onnxruntime, require_vnni
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    keep,
    maybe,
    op,
    refuse,
    var,
)

_LEAST = float(np.finfo(np.float32).tiny)  # the smallest scale of the data
_LARGEST = 2.0**100  # the largest scale of the data
_DEEP = 512  # if a sum has fewer products, scaling the sums takes as long as ConvInteger saves


def _require_deep(m: Match) -> None:
    """Refuse convolutions that are not faster with ConvInteger, sums that may need more than 32
    bits, and large weights that other nodes use.
    """
    dims = dims_of(m.W)
    if grade(m.conv, Wiring()) == INTEGERS:
        refuse("onnxruntime already computes the operator in integers")
    if m.conv.attr("group", 1) != 1:
        refuse("the convolution has groups")
    if all(size == 1 for size in dims[2:]):
        refuse("the window has one element")
    if not _DEEP <= math.prod(dims[1:]) <= MOST_PRODUCTS:
        refuse("a sum has too few products, or may need more than 32 bits")
    if would_double(m.W, math.prod(dims)):
        refuse(SHARED)


def _zero_point(values: Edge, zero: Edge | None) -> Array:
    """A zero point; if it is omitted, 0 in the type of the values."""
    if zero is not None:
        return array_of(zero)
    return np.zeros((), np.int8 if values.elem_type == SIGNED else np.uint8)


def _as_type(array: Array, elem_type: int) -> Array:
    """The integers in the signedness of `elem_type`, shifted by 128 if they have the other one."""
    now = SIGNED if array.dtype == np.int8 else UNSIGNED
    return array if now == elem_type else opposite(array, now)


def _require_bytes(m: Match) -> None:
    """Refuse unless the data and the weights are 8-bit integers, and the data have a single scale
    of usual size and a single zero point.
    """
    if m.q.elem_type not in OPPOSITE or m.W.elem_type not in OPPOSITE:
        refuse("the elements are not known to be integers of 8 bits")
    if array_of(m.s).size != 1 or (m.z is not None and array_of(m.z).size != 1):
        refuse("the data have several scales")
    if not _LEAST <= float(array_of(m.s).item()) <= _LARGEST:
        refuse("the scale is too small or too large to round safely")


def _scale(m: Match) -> Array:
    """The scale of the sums, which broadcasts into the result."""
    scale = array_of(m.t)
    if scale.dtype != np.float32 or array_of(m.s).dtype != np.float32:
        refuse("the scales are not float32")
    if scale.size == 1:
        return (scale * array_of(m.s)).reshape(())
    if dims_of(m.t) != dims_of(m.W)[:1] or m.weights.attr("axis", 1) != 0:
        refuse("a scale does not have exactly one number for each channel")
    rank = len(dims_of(m.W))
    return (scale * array_of(m.s)).reshape((-1, *(1,) * (rank - 2)))


class DequantizedConvPass(UBFusionPass):
    """A deep convolution of integers whose result is not quantized becomes a ConvInteger.

    before   Conv(DequantizeLinear(q, s, z), DequantizeLinear(W, t, w), bias)
    after    Cast(ConvInteger(QuantizeLinear(DequantizeLinear(q, s, z), s, z − 128), W + 128, z −
             128, w + 128))·(s·t) + bias
    refuses  a convolution whose result is quantized, because onnxruntime already computes it in
             integers; a convolution with groups, or with a window of one element, which
             IntegerPointwiseConvPass rewrites; sums of fewer than 512 or more than 33,025 products;
             data with several scales or zero points, or with a very small or very large scale;
             weights with several zero points; large weights that are used elsewhere; a processor
             without VNNI, because products may saturate; targets other than onnxruntime
    never    weights, scales and zero points that are not constants
    algebra  quantizing s(q−z) with the zero point z − 128 gives q − 128; Σ s(q−z)·t(W−w) =
             s·t·Σ (q−z)·(W−w), and this sum is exact in integers
    source   residual blocks of models that quantize only the inputs of operators (NNCF, OpenVINO,
             TensorRT). ConvInteger is fast with data in int8 and weights in uint8. For 256 channels
             on 14 × 14 pixels, it takes 0.4 of the time of a floating-point convolution
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "DequantizedConv",
            op.Conv(
                keep(op.DequantizeLinear(var("q"), const("s"), maybe(const("z")))),
                keep(op.DequantizeLinear(const("W"), const("t"), maybe(const("w")), _as="weights")),
                maybe(var("bias")),
                _as="conv",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        _require_deep(m)
        _require_bytes(m)
        points = np.unique(_zero_point(m.W, m.w))
        if points.size != 1:
            refuse("the weights have several zero points")
        require_vnni()
        scale = new.const(_scale(m))
        zero = _zero_point(m.q, m.z).reshape(())
        signed_zero = new.const(_as_type(zero, SIGNED))
        data = new.QuantizeLinear(m.conv.inputs[0], m.s, signed_zero)
        weights = new.const(_as_type(array_of(m.W), UNSIGNED))
        weights_zero = new.const(_as_type(points.reshape(()), UNSIGNED))
        sums = new.ConvInteger(data, weights, signed_zero, weights_zero, like=m.conv)
        result = new.Mul(new.Cast(sums, to=TensorProto.FLOAT), scale)
        if m.bias is None:
            return result
        rank = len(dims_of(m.W))
        shape = new.const(np.asarray((-1, *(1,) * (rank - 2)), np.int64))
        return new.Add(result, new.Reshape(m.bias, shape))
