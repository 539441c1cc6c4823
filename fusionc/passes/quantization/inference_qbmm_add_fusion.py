from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constants import array_of, dims_of, shape_of, would_double
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    either,
    keep,
    maybe,
    op,
    refuse,
    var,
)
from fusionc.rewrite.pattern import Formula, Out
from fusionc.runtime.processor import has_vnni

# between an element and its zero point; of the sum of products
_LARGEST = 255
_INT32 = (1 << 31) - 1
x = var("x")
a = var("a")
W = var("W")
bias = var("bias")
a_scale = var("a_scale")
a_zero = maybe(var("a_zero"))
W_scale = var("W_scale")
W_zero = maybe(var("W_zero"))
_QUANTIZED = op.DynamicQuantizeLinear(x)
_DEQUANTIZED = op.MatMul(
    keep(op.DequantizeLinear(a, a_scale, a_zero, _as="left")),
    keep(op.DequantizeLinear(W, W_scale, W_zero, _as="right")),
)


def _integers(left: Formula, zero: Formula) -> Formula:
    return op.Cast(op.MatMulInteger(left, W, zero, W_zero), to=TensorProto.FLOAT)


def _scaled(value: Formula, scale: Formula | Out) -> Formula:
    return either(value * (scale * W_scale), (value * scale) * W_scale, (value * W_scale) * scale)


_DYNAMIC = _scaled(_integers(_QUANTIZED[0], _QUANTIZED[2]), _QUANTIZED[1])
_PRODUCT = _integers(a, a_zero) * (a_scale * W_scale)


def _dynamic(m: Match, new: Tape) -> Result:
    columns = _columns_of(m.W)
    _check_row(m.bias, columns)
    for value in (m.W_scale, m.W_zero):
        _check_columns(value, columns)
    inputs = [m.x, m.W, m.W_scale, m.W_zero, m.bias]
    return new.node("DynamicQuantizeMatMul", inputs, domain=MICROSOFT)


def _integer(m: Match, new: Tape) -> Result:
    columns = _columns_of(m.W)
    _check_row(m.bias, columns)
    left, right = _scales_of(m.a_scale, m.W_scale, columns)
    _check_columns(m.W_zero, columns)
    if not _is_single(m.a_zero):
        refuse("a zero point of the left operand has several elements")
    if m.a.elem_type != TensorProto.UINT8 and m.W.elem_type != TensorProto.INT8:
        refuse("no kernel for signed elements and unsigned weights")
    inputs = [m.a, m.W, left, right, m.a_zero, m.W_zero, m.bias]
    return new.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)


def _scale(value: Edge) -> None:
    array = value.constant()
    if value.elem_type != TensorProto.FLOAT or array is None or not np.isfinite(array).all():
        refuse("the scales are not constants of float32")


def _columns_of(value: Edge) -> int:
    """The columns of a matrix. Refuses one that may have no rows, or that is no matrix of known
    shape.
    """
    shape = shape_of(value) or ()
    if (
        len(shape) != 2
        or not isinstance(shape[0], int)
        or not isinstance(shape[1], int)
        or not shape[0]
    ):
        refuse("the second operand is not a matrix of a known shape")
    return shape[1]


def _is_single(value: Edge | None) -> bool:
    """Whether this is left out, or known to be a single number."""
    return value is None or value.shape in ((), (1,))


def _check_columns(value: Edge | None, columns: int) -> None:
    """Refuse what is not left out, a single number, or one number for each column."""
    if value is not None and not _is_single(value) and value.shape != (columns,):
        refuse("a scale or zero point is not one number for each column")


def _check_row(bias: Edge | None, columns: int) -> None:
    """Refuse an addend that is there and not one number for each column."""
    if bias is not None and bias.shape != (columns,):
        refuse("the addend is not one number for each column")


def _scales_of(first: Edge, second: Edge, columns: int) -> tuple[Edge, Edge]:
    """Of two scales, first the one of all of the left operand, then the one of the weights."""
    left, right = (first, second) if _is_single(first) else (second, first)
    if not _is_single(left):
        refuse("both scales have several elements")
    _check_columns(right, columns)
    return left, right


def _unsigned(array: Any) -> Any:
    """The same numbers in uint8, 128 larger. The product of signed weights overflows on many
    processors: pairs of them are added in 16 bits.
    """
    return (array.astype("int16") + 128).astype("uint8")


class InferenceQbmmAddFusionPass(UBFusionPass):
    """A product of quantized operands, scaled, and its bias become one operator of onnxruntime.

    before   DequantizeLinear(a) · DequantizeLinear(W) + bias; MatMulInteger of a
             DynamicQuantizeLinear, or of anything, with Cast, the product of both scales and a bias
             or none
    after    com.microsoft.MatMulIntegerToFloat(a, W, scales, zero points, bias);
             DynamicQuantizeMatMul(x, W, …)
    refuses  weights that are no matrix of known shape, or have no rows (the kernel forgets to clear
             the result); scales, zero points and a bias that are not one number, or one for each
             column; for the first form: weights and scales that the model computes, elements other
             than uint8, for which there is no fast kernel, a QuantizeLinear behind it, large signed
             weights that are used elsewhere
    algebra  Σ s(a−z)·t(w−y) = s·t·Σ (a−z)·(w−y), which is exact in integers; without VNNI, W becomes
             unsigned (w + 128, y + 128), as products of signed weights saturate there; more rows
             than 33,025 may need more than 32 bits
    source   MindSpore's inference_qbmm_add_fusion, which rounds the bias; onnxruntime's
             DynamicQuantizeMatMulFusion and MatMulIntegerToFloatFusion make the same nodes of
             MatMulInteger at load; the first form takes 0.01 to 0.76 of the time, without VNNI
    """

    numerics = "rounding"
    aliases = ("inference_qbmm_add_fusion",)
    patterns = (
        Pattern("DequantizedMatMulAdd", _DEQUANTIZED + bias),
        Pattern("DynamicQuantizeMatMulAdd", _DYNAMIC + bias, _dynamic),
        Pattern("DynamicQuantizeMatMul", _DYNAMIC, _dynamic),
        Pattern("MatMulIntegerAdd", _PRODUCT + bias, _integer),
        Pattern("MatMulInteger", _PRODUCT, _integer),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if not m.W.is_constant:
            refuse("the weights are not constant")
        columns = _columns_of(m.W)
        _check_row(m.bias, columns)
        if m.a.elem_type != TensorProto.UINT8:
            refuse("the elements are not uint8")
        if any(user.is_op("QuantizeLinear") for user in m.outputs[0].outputs):
            refuse("the result is quantized")
        for value in (m.a_scale, m.W_scale):
            _scale(value)
        if dims_of(m.W)[0] * _LARGEST**2 > _INT32:
            refuse("the sum may need more than 32 bits")
        if not _is_single(m.a_scale) or m.left.outputs[0].elem_type != TensorProto.FLOAT:
            refuse("the left operand has several scales")
        _check_columns(m.W_scale, columns)
        if not _is_single(m.W_scale) and m.right.attr("axis") not in (1, -1):
            refuse("a scale or zero point is not one number for each column")
        weight = m.W
        zero = m.W_zero
        if weight.elem_type == TensorProto.INT8 and not has_vnni():
            if zero is not None and not zero.is_constant:
                refuse("the zero point of signed weights is not constant")
            if would_double(weight, array_of(weight).size):
                refuse("large signed weights are used elsewhere")
            point = np.zeros(m.W_scale.shape, np.int8) if zero is None else array_of(zero)
            weight, zero = (
                new.const(_unsigned(v), dtype=np.uint8) for v in (array_of(weight), point)
            )
        elif weight.elem_type not in (TensorProto.UINT8, TensorProto.INT8):
            refuse("the elements are not uint8")
        inputs = [m.a, weight, m.a_scale, m.W_scale, m.a_zero, zero, m.bias]
        return new.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
