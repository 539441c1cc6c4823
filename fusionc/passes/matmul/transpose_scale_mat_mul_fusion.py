import math
from typing import Any

import numpy as np

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.transpose_and_reshape import order_of, swaps_last_axes
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    either,
    op,
    refuse,
    var,
)
from fusionc.rewrite.pattern import Formula, ms
from fusionc.shapes.equality import broadcasts_into

a = var("a")
b = var("b")
c = const("c")
_BATCH_IS_TRANSPOSED = "the batch is transposed, too"
_MAX_EXPONENT = 40  # alpha must be between 2^−40 and 2^40
_BEFORE_SOFTMAX = ("Add", "Cast", "Div", "Mul", "Sub", "Where")


def _product(left: Formula, right: Formula) -> Formula:
    return either(op.MatMul(left, right, _as="product"), ms.FusedMatMul(left, right, _as="product"))


def _scaled(value: Formula) -> Formula:
    return either(op.Mul(value, c, _as="scale"), op.Div(value, c, _as="scale"))


def _transposed(value: Formula) -> Formula:
    return op.Transpose(value, _as="transpose")


def _is_swapped(m: Match) -> bool:
    """Whether the Transpose exchanges the last two axes."""
    return swaps_last_axes(m.transpose)


def _is_in_attention(value: Edge | None, depth: int = 4) -> bool:
    """Whether a Softmax reads the value, directly or after operators that scale or mask it."""
    users = [] if value is None or depth == 0 else value.outputs
    return any(
        user.is_op("Softmax")
        or (user.is_op(*_BEFORE_SOFTMAX) and _is_in_attention(user.outputs[0], depth - 1))
        for user in users
    )


def _fused(m: Match, new: Tape, **attributes: Any) -> Result:
    producers = [value.producer for value in (m.a, m.b) if value.producer is not None]
    if any(producer.is_op("DequantizeLinear") for producer in producers):
        refuse("onnxruntime has a product of the quantized elements")
    if any(producer.is_op("Softmax") for producer in producers) or _is_in_attention(m.outputs[0]):
        refuse("onnxruntime looks for attention when it loads the model")
    return new.node("FusedMatMul", [m.a, m.b], domain=MICROSOFT, like=m.product, **attributes)


def _alpha(m: Match, factor: float) -> float:
    """The alpha of the new product: that of the old product, multiplied or divided by `factor`."""
    if m.scale.op == "Div":
        factor = 1 / factor if factor else math.inf
    alpha = float(m.product.attr("alpha", 1.0)) * factor
    if alpha == 0 or not math.isfinite(alpha) or abs(math.log2(abs(alpha))) > _MAX_EXPONENT:
        refuse("the factor is zero, not finite, or of an extreme size")
    if array_of(m.c).dtype == np.float64 and float(np.float32(alpha)) != alpha:
        refuse("alpha is stored in float32, which cannot represent the factor")
    return alpha


def _is_cast_constant(value: Edge) -> bool:
    """Whether a value is cast from a constant: weights of 8 bits or less, which kernels unpack and
    scale while they multiply.
    """
    maker = value.producer
    constant = maker.inputs[0] if maker is not None and maker.is_op("Cast") else None
    return constant is not None and constant.is_constant


def _flip(m: Match, new: Tape, side: str) -> Result:
    if m.product.attr(f"transBatch{side}", 0):
        refuse(_BATCH_IS_TRANSPOSED)
    left = m.a.require_shape(least=2)
    right = m.b.require_shape(least=2)
    has_elements = all(isinstance(dim, int) and dim > 0 for dim in left[:-2])
    if side == "A" and len(right) == 2 and not has_elements:
        refuse("a batch that may be empty is multiplied by one matrix")
    terms = left[-2] if side == "A" else right[-1]
    if not isinstance(terms, int) or terms == 0:
        refuse("the summed axis may be empty")
    return _fused(m, new, **{f"trans{side}": 1 - int(m.product.attr(f"trans{side}", 0))})


def _left(m: Match, new: Tape) -> Result:
    return _flip(m, new, "A")


def _right(m: Match, new: Tape) -> Result:
    return _flip(m, new, "B")


def _moves_rows(m: Match) -> bool:
    """Whether the Transpose moves the first axis directly before or directly after the last one,
    and keeps the order of the others.
    """
    order = order_of(m.transpose)
    rest = [axis for axis in order if axis]
    return len(order) > 2 and order[:-2] == rest[:-1] == sorted(rest)[:-1]


def _move_batch(m: Match, new: Tape, side: str) -> Result:
    attribute = f"transBatch{side}"
    if m.product.attr(attribute, 0):
        refuse(_BATCH_IS_TRANSPOSED)
    left = m.a.require_shape()
    right = m.b.require_shape()
    if len(left) != len(right):
        refuse("the ranks differ")
    if not all(isinstance(dim, int) and dim > 0 for dim in (*left, *right)):
        refuse("an axis may be empty, and the kernel divides by its length")
    is_last = order_of(m.transpose)[-1] == 0
    flag = f"trans{side}"
    flags = {attribute: 1, flag: int(m.product.attr(flag, 0)) ^ is_last}
    return _fused(m, new, **flags)


def _left_batch(m: Match, new: Tape) -> Result:
    return _move_batch(m, new, "A")


def _right_batch(m: Match, new: Tape) -> Result:
    return _move_batch(m, new, "B")


class TransposeScaleMatMulFusionPass(UBFusionPass):
    """The scale of a product and Transposes of its operands become attributes of onnxruntime's
    FusedMatMul.

    before   (c·a)·b, a·(c·b), c·(a·b), or divided by c, for a constant single number c;
             Transpose(a)·b, a·Transpose(b) that exchange the last two axes, or that move the first
             axis to the place of the rows or of the columns, such as [1, 0, 2] or [1, 2, 0]
    after    com.microsoft.FusedMatMul(a, b) with alpha, transA, transB, transBatchA, transBatchB
    refuses  a factor that is 0, not finite, above 2^40, below 2^−40 or not a single number, or that
             may enlarge the scaled value; a float64 factor that float32 cannot represent; integers,
             which lack a kernel; the scale of weights that are cast from constants, because
             onnxruntime scales these when it loads the model; quantized operands, and products
             before or after a Softmax, because onnxruntime looks for larger structures there; a
             transposed operand if the other operand is a vector (the kernel ignores the
             transposition), if the summed axis may be empty (the kernel does not write the result),
             or if the left operand has a batch that may be empty and the right operand is a single
             matrix (the kernel fails); for transBatchA and transBatchB also operands of different
             ranks (the kernel fails), and an axis that may be empty (the kernel divides by zero)
    never    other permutations
    algebra  (c·A)·B = A·(c·B) = c·(A·B); the kernel reads its operands along either axis
    source   TorchAir's npu_transpose_batchmatmul; onnxruntime's MatmulTransposeFusion and
             MatMulScaleFusion create the same node when it loads a model
    """

    numerics = "rounding"
    aliases = (
        "transpose_matmul_fusion",
        "npu_transpose_batchmatmul",
        "TbeBatchMatmulElementWiseFusionPass",
        "BatchMatMulTransposeFusionPass",
    )
    patterns = (
        Pattern("ScaleOfProduct", _scaled(_product(a, b))),
        Pattern("ScaleOfLeft", _product(_scaled(a), b)),
        Pattern("ScaleOfRight", _product(a, _scaled(b))),
        Pattern("TransposeOfLeft", _product(_transposed(a), b), _left, where=_is_swapped),
        Pattern("TransposeOfRight", _product(a, _transposed(b)), _right, where=_is_swapped),
        Pattern("BatchOfLeft", _product(_transposed(a), b), _left_batch, where=_moves_rows),
        Pattern("BatchOfRight", _product(a, _transposed(b)), _right_batch, where=_moves_rows),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        factor = float(m.c.require_number("the factor"))
        scaled = next((value for value in m.scale.inputs if value is not m.c), m.c)
        if _is_cast_constant(scaled):
            refuse("onnxruntime scales these weights when it loads the model")
        if not broadcasts_into(array_of(m.c).shape, scaled.shape):
            refuse("the factor may enlarge the value that it scales")
        return _fused(m, new, alpha=_alpha(m, factor))
