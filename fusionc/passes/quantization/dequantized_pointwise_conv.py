from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.group_parts import grade
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.operators.integer_operators import INTEGERS
from fusionc.passes._shared.constants import SHARED, array_of, dims_of, would_double
from fusionc.passes._shared.target import require_onnxruntime
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
from fusionc.runtime.processor import has_vnni

_BYTES = (TensorProto.UINT8, TensorProto.INT8)
_FEW = 64  # channels with which the transpositions take longer than the product gains
_LARGEST_SUM = ((1 << 31) - 1) // 255**2  # products of 8 bits that fit into 32 bits
_TO_THE_END = (1 << 31) - 1


def _require_pointwise(m: Match) -> None:
    """Refuses what is not a plain convolution with a window of one element."""
    if any(size != 1 for size in dims_of(m.W)[2:]):
        refuse("the window has more than one element")
    if m.conv.attr("group", 1) != 1:
        refuse("the convolution has groups")
    if any(m.conv.attr("pads") or ()) or m.conv.attr("auto_pad") not in (None, "NOTSET", "VALID"):
        refuse("the convolution pads")


def _require_weights(m: Match) -> None:
    """Refuses weights, or data, that the product does not take or is not faster with."""
    dims = dims_of(m.W)
    if dims[1] < _FEW:
        refuse("too few channels")
    if dims[1] > _LARGEST_SUM:
        refuse("the sum may need more than 32 bits")
    if m.W.elem_type not in _BYTES or m.q.elem_type not in _BYTES:
        refuse("the elements are not known to be integers of 8 bits")
    if m.q.elem_type == TensorProto.INT8 and m.W.elem_type == TensorProto.UINT8:
        refuse("no kernel for signed elements and unsigned weights")
    if would_double(m.W, m.W.constant().size):
        refuse(SHARED)


def _for_columns(m: Match, value: Edge | None) -> Edge | None:
    """A scale or zero point of the weights. Refuses what is neither one number nor one for each
    channel of the result.
    """
    if value is None:
        return None
    dims = dims_of(value)
    is_single = set(dims) <= {1} and len(dims) < 2
    if not is_single and (dims != dims_of(m.W)[:1] or m.weights.attr("axis", 1) != 0):
        refuse("a scale or zero point is not one number for each channel")
    return value


def _require_scales(m: Match) -> None:
    for value in (m.s, m.z):
        if value is not None and array_of(value).size != 1:
            refuse("the data have several scales")
    scales = (array_of(m.s), array_of(m.t))
    if any(scale.dtype != np.float32 or not np.isfinite(scale).all() for scale in scales):
        refuse("the scales are not finite float32 numbers")


def _strided(q: Edge, strides: Sequence[int], new: Tape) -> Edge:
    """The integers that a window of one element reads."""
    if set(strides) <= {1}:
        return q
    axes = np.arange(2, 2 + len(strides))
    ends = np.full(axes.size, _TO_THE_END)
    arrays = (np.zeros_like(axes), ends, axes, np.asarray(strides))
    return new.Slice(q, *(new.const(array.astype(np.int64)) for array in arrays))


class DequantizedPointwiseConvPass(UBFusionPass):
    """A 1×1 convolution of integers whose result is not quantized becomes a product of integers.

    before   Conv(DequantizeLinear(q, s, z), DequantizeLinear(W, t, w), bias) with a window of one
             element
    after    Transpose(MatMulIntegerToFloat(Transpose(q), Wᵀ, s, t, z, w, bias)), with a Slice of q
             before it for strides
    refuses  a result that is quantized, which onnxruntime computes in integers as it is; groups and
             padding; fewer than 64 channels, with which the transpositions take longer; several
             scales for the data; weights of more than 33,025 channels, whose sums may need more
             than 32 bits; large weights that are used elsewhere; a processor without VNNI, where
             products may saturate; types other than 8 bits; other targets
    never    scales, zero points or weights that are not constants
    algebra  Σ s(q−z)·t(W−w) = s·t·Σ (q−z)·(W−w), which is exact in integers
    source   models of NNCF, OpenVINO and TensorRT quantize the inputs of operators alone:
             onnxruntime computes such a Conv in float32, and its weights in every run. ResNet-50
             takes 0.7 of the time, MobileNetV2 0.7
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "DequantizedPointwiseConv",
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
        if not has_vnni():
            refuse("without VNNI, products with these weights may saturate")
        if grade(m.conv, Wiring()) == INTEGERS:
            refuse("onnxruntime computes it in integers as it is")
        _require_pointwise(m)
        _require_weights(m)
        _require_scales(m)
        weights = array_of(m.W)
        matrix = new.const(np.ascontiguousarray(weights.reshape(weights.shape[:2]).T), like=m.W)
        spatial = range(2, weights.ndim)
        last = new.Transpose(
            _strided(m.q, m.conv.attr("strides") or (), new), perm=[0, *spatial, 1]
        )
        scales = [m.s, _for_columns(m, m.t), m.z, _for_columns(m, m.w)]
        product = new.node(
            "MatMulIntegerToFloat", [last, matrix, *scales, m.bias], domain=MICROSOFT
        )
        return new.Transpose(product, perm=[0, weights.ndim - 1, *range(1, weights.ndim - 1)])
