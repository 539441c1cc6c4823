"""Which signedness of 8-bit operands onnxruntime's CPU kernels for products are fast with.

Measured with onnxruntime 1.32 on processors with VNNI, one thread. Times in ms of a product of
128 × 512 by 512 × 512, or a convolution of 64 by 64 channels on 56 × 56 pixels; the letters are
the data and the weights, u for uint8 and s for int8:

    QLinearConv 3×3   uu 1.89  us 0.44  ss 7.18        QLinearMatMul  uu 0.40  us 0.06  ss 2.06
    ConvInteger 3×3   uu 1.74  us 8.13  su 0.52  ss 8.08
    MatMulInteger     uu 0.37  us 0.04  su 2.03  ss 2.12
    QGemm             uu 0.39  us 0.06  ss 2.03

ConvInteger has its operands the other way round: the weights are the left one of its product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT

_Array = np.ndarray[Any, Any]
_HALF = 128  # of the range of 8 bits
UNSIGNED = int(TensorProto.UINT8)
SIGNED = int(TensorProto.INT8)
OPPOSITE = {UNSIGNED: SIGNED, SIGNED: UNSIGNED}


@dataclass(frozen=True)
class Operand:
    """An integer operand: the inputs that hold it and its zero point, and the type that is fast."""

    value: int
    zero: int
    fast: int = 0  # 0 if both types take the same time


@dataclass(frozen=True)
class IntegerKernel:
    """An operator on 8-bit integers, each with a zero point."""

    operands: tuple[Operand, ...]
    # the input that holds the zero point of the result; None if the result has no zero point
    result_zero: int | None = None
    # how many operands, the first ones, must have one type, which the result with a zero point has
    alike: int = 0


def _product(
    data: tuple[int, int], weights: tuple[int, int], result_zero: int | None = None
) -> IntegerKernel:
    operands = (Operand(*data, UNSIGNED), Operand(*weights, SIGNED))
    return IntegerKernel(operands, result_zero, alike=1)


_RESULT_OF_QGEMM = 8  # the input that holds the zero point of its result
_ONE_OPERAND = IntegerKernel((Operand(0, 2),), result_zero=4, alike=1)
_WEIGHTS_OF_LSTM = (Operand(1, 9, SIGNED), Operand(2, 11, SIGNED))

KERNELS: dict[tuple[str, str], IntegerKernel] = {
    ("", "QuantizeLinear"): IntegerKernel((), result_zero=2),
    (MICROSOFT, "QuantizeLinear"): IntegerKernel((), result_zero=2),
    ("", "DequantizeLinear"): IntegerKernel((Operand(0, 2),)),
    (MICROSOFT, "DequantizeLinear"): IntegerKernel((Operand(0, 2),)),
    ("", "QLinearConv"): _product((0, 2), (3, 5), 7),
    ("", "QLinearMatMul"): _product((0, 2), (3, 5), 7),
    ("", "MatMulInteger"): _product((0, 2), (1, 3)),
    ("", "ConvInteger"): IntegerKernel((Operand(0, 2, SIGNED), Operand(1, 3, UNSIGNED))),
    (MICROSOFT, "QGemm"): _product((0, 2), (3, 5), _RESULT_OF_QGEMM),
    (MICROSOFT, "MatMulIntegerToFloat"): _product((0, 4), (1, 5)),
    (MICROSOFT, "DynamicQuantizeMatMul"): IntegerKernel((Operand(1, 3, SIGNED),)),
    (MICROSOFT, "DynamicQuantizeLSTM"): IntegerKernel(_WEIGHTS_OF_LSTM, alike=2),
    (MICROSOFT, "QLinearGlobalAveragePool"): _ONE_OPERAND,
    (MICROSOFT, "QLinearLeakyRelu"): _ONE_OPERAND,
    (MICROSOFT, "QLinearSigmoid"): _ONE_OPERAND,
    (MICROSOFT, "QLinearSoftmax"): _ONE_OPERAND,
    (MICROSOFT, "QLinearWhere"): IntegerKernel((Operand(1, 3), Operand(4, 6)), 8, alike=2),
}
# Operators that give other integers, as their zero points take part in sums of float32, and the
# input that holds the zero point of their result: of 4 million numbers 11 of products and 19 of
# sums differed, and more of averages that lie between two integers.
KEPT: dict[tuple[str, str], int] = {
    (MICROSOFT, "QLinearAdd"): 7,
    (MICROSOFT, "QLinearMul"): 7,
    (MICROSOFT, "QLinearAveragePool"): 4,
}
# Operators that move integers or compare them: the inputs that hold them.
CARRIED: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape",
            "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
        ),
        (0,),
    ),
    "Clip": (0, 1, 2),
    "Concat": None,
    "Max": None,
    "Min": None,
    "Where": (1, 2),
}  # fmt: skip


def kernel_of(operator: tuple[str, str], inputs: int) -> IntegerKernel | None:
    """What is known of an operator with that many inputs, if it knows zero points."""
    if operator == (MICROSOFT, "QLinearConcat"):
        operands = tuple(Operand(place, place + 2) for place in range(2, inputs, 3))
        return IntegerKernel(operands, result_zero=1, alike=len(operands))
    if operator == (MICROSOFT, "QGemm") and inputs <= _RESULT_OF_QGEMM:  # the result is float32
        return IntegerKernel(KERNELS[operator].operands)
    return KERNELS.get(operator)


def opposite(array: _Array, elem_type: int) -> _Array:
    """Elements or zero points of this type in the other signedness."""
    by = _HALF if elem_type == SIGNED else -_HALF
    return (array.astype(np.int16) + by).astype(np.uint8 if elem_type == SIGNED else np.int8)
