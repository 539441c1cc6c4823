from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.group_parts import grade
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.operators.signedness import SIGNED, opposite
from fusionc.passes._shared.constants import SHARED, array_of, dims_of, shape_of, would_double
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    either,
    keep,
    maybe,
    not_constant,
    op,
    refuse,
    var,
)
from fusionc.rewrite.pattern import Formula, Out
from fusionc.runtime.processor import has_vnni
from fusionc.shapes.expressions import is_static

_LARGEST = 255  # the largest difference between an element and its zero point
_INT32 = (1 << 31) - 1  # the largest sum of products that int32 can hold
x = var("x")
a = var("a")
W = var("W")
bias = var("bias")
a_scale = var("a_scale")
a_zero = maybe(var("a_zero"))
W_scale = var("W_scale")
W_zero = maybe(var("W_zero"))
_QUANTIZED = op.DynamicQuantizeLinear(x)
_LEFT = keep(op.DequantizeLinear(a, a_scale, a_zero, _as="left"))
_RIGHT = keep(op.DequantizeLinear(W, W_scale, W_zero, _as="right"))
_WEIGHTS = either(_RIGHT, keep(op.Transpose(_RIGHT, _as="transpose")))


def _integers(left: Formula, zero: Formula) -> Formula:
    return op.Cast(op.MatMulInteger(left, W, zero, W_zero), to=TensorProto.FLOAT)


def _scaled(value: Formula, scale: Formula | Out) -> Formula:
    return either(value * (scale * W_scale), (value * scale) * W_scale, (value * W_scale) * scale)


_DYNAMIC = _scaled(_integers(_QUANTIZED[0], _QUANTIZED[2]), _QUANTIZED[1])
_PRODUCT = _integers(a, a_zero) * (a_scale * W_scale)
_FOLDED = _integers(a, a_zero) * const("W_scale")


def _dynamic(m: Match, new: Tape) -> Result:
    columns = _columns(m)
    for value in (m.W_scale, m.W_zero):
        _require_columns(value, columns)
    inputs = [m.x, m.W, m.W_scale, m.W_zero, m.bias]
    return new.node("DynamicQuantizeMatMul", inputs, domain=MICROSOFT)


def _integer(m: Match, new: Tape) -> Result:
    columns = _columns(m)
    scale = m.a_scale
    if scale is None:  # two constant scales have become one
        scale = new.const(np.array(1, np.float32))
    left, right = _scales_of(scale, m.W_scale, columns)
    _require_columns(m.W_zero, columns)
    if not _is_single(m.a_zero):
        refuse("a zero point of the left operand has several elements")
    if m.a.elem_type != TensorProto.UINT8 and m.W.elem_type != TensorProto.INT8:
        refuse("no kernel for signed elements and unsigned weights")
    inputs = [m.a, m.W, left, right, m.a_zero, m.W_zero, m.bias]
    return new.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)


def _require_finite(scale: Edge) -> None:
    scale.require_type(np.float32, of="a scale")
    if not np.isfinite(scale.require_constant("the scales")).all():
        refuse("a scale is not finite")


def _is_transposed(m: Match) -> bool:
    """Whether the product transposes m.W, by a Transpose or in a Gemm. Refuses a Gemm that scales
    or transposes its first operand, or that onnxruntime already computes in integers.
    """
    exchanges: bool = m.transpose is not None and m.transpose.attr("perm") != [0, 1]
    if m.gemm is None:
        return exchanges
    if m.gemm.attr("alpha") != 1 or m.gemm.attr("beta") != 1 or m.gemm.attr("transA"):
        refuse("the Gemm scales or transposes its first operand")
    if grade(m.gemm, Wiring()):
        refuse("onnxruntime already computes the operator in integers")
    return exchanges != bool(m.gemm.attr("transB"))


def _columns(m: Match, is_transposed: bool = False) -> int:
    """The number of columns of the second operand.

    Refuses a second operand that is not a matrix of known shape or that has no rows. Also refuses
    an addend that does not have exactly one number for each column.
    """
    shape = shape_of(m.W)
    if shape is None or len(shape) != 2 or not is_static(shape) or not shape[is_transposed]:
        refuse("the second operand is not a matrix of a known shape")
    columns = shape[not is_transposed]
    if m.bias is not None and m.bias.shape != (columns,):
        refuse("the addend does not have exactly one number for each column")
    return columns


def _is_single(value: Edge | None) -> bool:
    """Whether an operand is omitted, or known to be a single number."""
    return value is None or value.shape in ((), (1,))


def _require_columns(value: Edge | None, columns: int) -> None:
    """Refuse a scale or zero point with neither one number nor one number for each column."""
    if value is not None and not _is_single(value) and value.shape != (columns,):
        refuse("a scale or zero point has neither one number nor one number for each column")


def _scales_of(first: Edge, second: Edge, columns: int) -> tuple[Edge, Edge]:
    """Two scales, which the model may multiply in either order: first a single number, the scale of
    the left operand, then the scale of the weights. Refuses if both have several elements.
    """
    left, right = (first, second) if _is_single(first) else (second, first)
    if not _is_single(left):
        refuse("both scales have several elements")
    _require_columns(right, columns)
    return left, right


def _require_one_scale(m: Match, columns: int, is_transposed: bool) -> None:
    """Refuse unless the left operand has a single scale, and the right operand has a single scale
    or one for each column.
    """
    for value in (m.a_scale, m.W_scale):
        _require_finite(value)
    if not _is_single(m.a_scale) or m.left.outputs[0].elem_type != TensorProto.FLOAT:
        refuse("the left operand has several scales")
    _require_columns(m.W_scale, columns)
    if not _is_single(m.W_scale) and m.right.attr("axis") % 2 == is_transposed:
        refuse("a scale or zero point has neither one number nor one number for each column")


def _unsigned(m: Match, new: Tape) -> tuple[Edge, Edge | None]:
    """The weights and their zero point, in uint8 if the processor lacks VNNI.

    Processors without VNNI add pairs of products in 16 bits, in which products with signed weights
    may saturate. So 128 is added to signed weights and zero points.
    """
    weight: Edge = m.W
    zero: Edge | None = m.W_zero
    weight.require_type(np.uint8, np.int8, of="the weights")
    if weight.elem_type == TensorProto.UINT8 or has_vnni():
        return weight, zero
    array = array_of(weight)
    point = np.zeros(m.W_scale.shape, np.int8)
    if zero is not None:
        point = zero.require_constant("the zero point of signed weights")
    if would_double(weight, array.size):
        refuse("large signed weights are used elsewhere")
    return new.const(opposite(array, SIGNED)), new.const(opposite(point, SIGNED))


class InferenceQbmmAddFusionPass(UBFusionPass):
    """A product of quantized operands, its scale and its bias become one operator of onnxruntime.

    before   dequantized form: DequantizeLinear(a) · DequantizeLinear(W) + bias as MatMul and Add,
             or as Gemm; W may be transposed. Integer form: Cast(MatMulInteger(a, W)) multiplied by
             both scales or by their constant product, perhaps with an added bias; a may come from
             DynamicQuantizeLinear(x)
    after    com.microsoft.MatMulIntegerToFloat(a, W, scales, zero points, bias), or
             com.microsoft.DynamicQuantizeMatMul(x, W, …) if the model quantizes x when it runs
    refuses  weights that are not a matrix of known shape, or have no rows (the kernel would not
             clear the result); scales and zero points that have neither one number nor one number
             for each column; a bias that does not have exactly one number for each column; in the
             dequantized form also: weights and scales that are not constant; an operand a that is
             not uint8, because other types lack a fast kernel; a result that is quantized; a Gemm
             that scales, or that onnxruntime already computes in integers because its bias is
             int32; large signed or transposed weights that are used elsewhere
    algebra  Σ s(a−z)·t(w−y) = s·t·Σ (a−z)·(w−y), and this sum is exact in integers; if the
             processor lacks VNNI, W becomes unsigned (w + 128, y + 128), because products with
             signed weights may saturate; if W has more than 33,025 rows, sums may need more than 32
             bits
    source   MindSpore's inference_qbmm_add_fusion, which rounds the bias; onnxruntime's
             DynamicQuantizeMatMulFusion and MatMulIntegerToFloatFusion turn MatMulInteger into the
             same nodes when it loads a model; without VNNI, the dequantized form takes 0.01 to 0.76
             of the time
    """

    numerics = "rounding"
    aliases = ("inference_qbmm_add_fusion",)
    patterns = (
        Pattern("DequantizedMatMulAdd", op.MatMul(_LEFT, _WEIGHTS) + bias),
        Pattern("DequantizedGemm", op.Gemm(_LEFT, _WEIGHTS, bias, _as="gemm")),
        Pattern("DynamicQuantizeMatMulAdd", _DYNAMIC + bias, _dynamic),
        Pattern("DynamicQuantizeMatMul", _DYNAMIC, _dynamic),
        Pattern("MatMulIntegerAdd", _PRODUCT + bias, _integer),
        Pattern("MatMulInteger", _PRODUCT, _integer),
        Pattern("MatMulIntegerFoldedAdd", _FOLDED + bias, _integer),
        Pattern("MatMulIntegerFolded", _FOLDED, _integer),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if not m.W.is_constant:
            refuse(not_constant("the weights"))
        is_transposed = _is_transposed(m)
        columns = _columns(m, is_transposed)
        m.a.require_type(np.uint8)
        if any(user.is_op("QuantizeLinear") for user in m.outputs[0].outputs):
            refuse("the result is quantized")
        _require_one_scale(m, columns, is_transposed)
        if dims_of(m.W)[is_transposed] * _LARGEST**2 > _INT32:
            refuse("the sum may need more than 32 bits")
        weight, zero = _unsigned(m, new)
        if is_transposed:
            if would_double(m.W, array_of(m.W).size):
                refuse(SHARED)
            weight = new.const(np.ascontiguousarray(array_of(weight).T), like=weight)
        inputs = [m.a, weight, m.a_scale, m.W_scale, m.a_zero, zero, m.bias]
        return new.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
