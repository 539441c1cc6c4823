from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.integer_groups.group_parts import grade
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.operators.integer_operators import INTEGERS
from fusionc.operators.signedness import MOST_PRODUCTS, OPPOSITE, SIGNED, UNSIGNED
from fusionc.passes._shared.constants import SHARED, array_of, dims_of, would_double
from fusionc.passes._shared.target import require_onnxruntime, require_vnni
from fusionc.passes.quantization._scaled_conv_integer import (
    SCALED,
    W,
    bias,
    bias_of_channels,
    one_for_each_channel,
    q,
    t,
    w,
)
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

_FEW = 64  # if there are fewer channels, the Transposes take longer than the product saves
_TO_THE_END = (1 << 31) - 1


def _require_pointwise(m: Match) -> None:
    """Refuse convolutions that have groups, padding, or a window of several elements."""
    if any(size != 1 for size in dims_of(m.W)[2:]):
        refuse("the window has more than one element")
    if m.conv.attr("group", 1) != 1:
        refuse("the convolution has groups")
    if any(m.conv.attr("pads") or ()) or m.conv.attr("auto_pad") not in (None, "NOTSET", "VALID"):
        refuse("the convolution pads")


def _require_weights(m: Match) -> None:
    """Refuse weights or data that the product does not support."""
    if dims_of(m.W)[1] > MOST_PRODUCTS:
        refuse("the sum may need more than 32 bits")
    if m.W.elem_type not in OPPOSITE or m.q.elem_type not in OPPOSITE:
        refuse("the elements are not known to be integers of 8 bits")
    if m.q.elem_type == SIGNED and m.W.elem_type == UNSIGNED:
        refuse("no kernel for signed elements and unsigned weights")
    if would_double(m.W, array_of(m.W).size):
        refuse(SHARED)


def _require_scales(m: Match) -> None:
    for value in (m.s, m.z):
        if value is not None and value.shape not in ((), (1,)):
            refuse("the data have several scales")
    for value in filter(None, (m.s, m.t)):
        scale = value.constant()
        if scale is not None and not np.isfinite(scale).all():
            refuse("a scale is not finite")
        value.require_type(np.float32, of="a scale")


def _rows(data: Edge, strides: Sequence[int], new: Tape) -> Edge:
    """The integers that a window of one element reads, with the channels as the last axis."""
    axes = np.arange(1, len(strides) + 1)
    last = new.Transpose(data, perm=[0, *(axes + 1).tolist(), 1])
    if set(strides) <= {1}:
        return last
    arrays = (np.zeros_like(axes), np.full(axes.size, _TO_THE_END), axes, np.asarray(strides))
    return new.Slice(last, *(new.const(array.astype(np.int64)) for array in arrays))


def _product(m: Match, new: Tape, columns: Sequence[Edge | None]) -> Result:
    """The product over the channels. `columns` are the scale, the zero point and the addend of the
    columns of the weights.
    """
    require_onnxruntime(m)
    _require_pointwise(m)
    _require_weights(m)
    _require_scales(m)
    require_vnni()
    scale, zero, addend = columns
    weights = array_of(m.W)
    matrix = new.const(np.ascontiguousarray(weights.reshape(weights.shape[:2]).T), like=m.W)
    rows = _rows(m.q, m.conv.attr("strides") or (1,) * (weights.ndim - 2), new)
    inputs = [rows, matrix, m.s, scale, m.z, zero, addend]
    product = new.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
    return new.Transpose(product, perm=[0, weights.ndim - 1, *range(1, weights.ndim - 1)])


def _integer(m: Match, new: Tape) -> Result:
    """The product in place of a ConvInteger whose sums are scaled."""
    if m.w is not None and array_of(m.w).size != 1:
        refuse("the weights have several zero points")
    columns = (one_for_each_channel(m.t, m.W, new), m.w, bias_of_channels(m.bias, m.W, new))
    return _product(m, new, columns)


class IntegerPointwiseConvPass(UBFusionPass):
    """A 1×1 convolution of integers whose result is not quantized becomes a product of integers.

    before   Conv(DequantizeLinear(q, s, z), DequantizeLinear(W, t, w), bias) or Cast(ConvInteger(q,
             W, z, w))·(s·t) + bias, with a window of one element
    after    Transpose(MatMulIntegerToFloat(Transpose(q), Wᵀ, s, t, z, w, bias)); if the convolution
             has strides, a Slice follows Transpose(q)
    refuses  a convolution whose result is quantized, because onnxruntime already computes it in
             integers; a convolution with groups or padding; dequantized data of fewer than 64
             channels, because the Transposes take longer than the product saves; data with several
             scales; weights of more than 33,025 channels, because sums may need more than 32 bits;
             large weights that are used elsewhere; a processor without VNNI, because products may
             saturate; types other than 8-bit integers; targets other than onnxruntime
    never    weights, and their scales and zero points, that are not constants
    algebra  Σ s(q−z)·t(W−w) = s·t·Σ (q−z)·(W−w), and this sum is exact in integers
    source   models of NNCF, OpenVINO and TensorRT quantize only the inputs of operators.
             onnxruntime computes such a Conv in float32, and dequantizes its weights in every run.
             ResNet-50 takes 0.6 of the time, MobileNetV2 0.7. quantize_dynamic writes ConvInteger;
             its Cast, Mul and Add each read and write the whole result
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "DequantizedPointwiseConv",
            op.Conv(
                keep(op.DequantizeLinear(q, const("s"), maybe(const("z")))),
                keep(op.DequantizeLinear(W, t, w, _as="weights")),
                maybe(var("bias")),
                _as="conv",
            ),
        ),
        Pattern("PointwiseConvIntegerAdd", SCALED + bias, _integer),
        Pattern("PointwiseConvInteger", SCALED, _integer),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if grade(m.conv, Wiring()) == INTEGERS:
            refuse("onnxruntime already computes the operator in integers")
        if dims_of(m.W)[1] < _FEW:
            refuse("the convolution has too few channels")
        values = [m.t, m.w]
        if any(v is not None and dims_of(v) not in ((), (1,), dims_of(m.W)[:1]) for v in values):
            refuse("a scale or zero point has neither one number nor one number for each channel")
        if len(dims_of(m.t)) and dims_of(m.t) != (1,) and m.weights.attr("axis", 1) != 0:
            refuse("a scale or zero point has neither one number nor one number for each channel")
        return _product(m, new, (*values, m.bias))
