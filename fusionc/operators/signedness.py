"""The signedness of 8-bit operands for which onnxruntime's CPU kernels of products are fast.

Measured with onnxruntime 1.32 on processors with VNNI and one thread, in ms: products of 128 × 512
by 512 × 512, and convolutions of 64 by 64 channels on 56 × 56 pixels. The two letters are the types
of the data and of the weights, u for uint8 and s for int8:

    QLinearConv 3×3   uu 1.89  us 0.44  ss 7.18        QLinearMatMul  uu 0.40  us 0.06  ss 2.06
    ConvInteger 3×3   uu 1.74  us 8.13  su 0.52  ss 8.08
    MatMulInteger     uu 0.37  us 0.04  su 2.03  ss 2.12
    QGemm             uu 0.39  us 0.06  ss 2.03

ConvInteger exchanges its operands: its product has the weights as the left operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT

_Array = np.ndarray[Any, Any]
_HALF = 128  # half of the range of 8-bit integers
UNSIGNED = int(TensorProto.UINT8)
SIGNED = int(TensorProto.INT8)
OPPOSITE = {UNSIGNED: SIGNED, SIGNED: UNSIGNED}
MOST_PRODUCTS = ((1 << 31) - 1) // 255**2  # of 8-bit integers, whose sum fits into 32 bits


@dataclass(frozen=True)
class Operand:
    """An integer operand: its input, the input of its zero point, and its fast type."""

    value: int  # position of the input
    zero: int  # position of the input with the zero point
    fast: int = 0  # the element type for which the kernel is fast; 0 if both are equally fast


@dataclass(frozen=True)
class IntegerKernel:
    """An operator on 8-bit integers with zero points."""

    operands: tuple[Operand, ...]
    # position of the input with the zero point of the result; None if the result has none
    result_zero: int | None = None
    # The first `alike` operands must have one type, which a quantized result has, too.
    alike: int = 0


def _product(
    data: tuple[int, int], weights: tuple[int, int], result_zero: int | None = None
) -> IntegerKernel:
    operands = (Operand(*data, UNSIGNED), Operand(*weights, SIGNED))
    return IntegerKernel(operands, result_zero, alike=1)


_RESULT_OF_QGEMM = 8  # position of the input with the zero point of the result
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
# Operators whose results change with the signedness, because the zero points take part in float32
# sums; and for each the position of the input with the zero point of the result. Of 4 million
# elements, 11 differed for products and 19 for sums. For averages more differed, because averages
# often are halfway between two integers.
KEPT: dict[tuple[str, str], int] = {
    (MICROSOFT, "QLinearAdd"): 7,
    (MICROSOFT, "QLinearMul"): 7,
    (MICROSOFT, "QLinearAveragePool"): 4,
}
# Operators that move or compare integers, and the positions of the inputs with these integers.
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
    """The kernel of an operator on integers with this number of inputs; None for others."""
    if operator == (MICROSOFT, "QLinearConcat"):
        operands = tuple(Operand(position, position + 2) for position in range(2, inputs, 3))
        return IntegerKernel(operands, result_zero=1, alike=len(operands))
    if operator == (MICROSOFT, "QGemm") and inputs <= _RESULT_OF_QGEMM:  # the result is a float
        return IntegerKernel(KERNELS[operator].operands)
    return KERNELS.get(operator)


def opposite(array: _Array, elem_type: int) -> _Array:
    """Elements or zero points of this type, shifted to the opposite signedness."""
    shift = _HALF if elem_type == SIGNED else -_HALF
    return (array.astype(np.int16) + shift).astype(np.uint8 if elem_type == SIGNED else np.int8)
