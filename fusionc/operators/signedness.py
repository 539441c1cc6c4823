"""The signedness of 8-bit operands with which onnxruntime's CPU kernels of products are fast.

The table shows the time in ms of products of 128 × 512 by 512 × 512, and of convolutions from 64 to
64 channels on 56 × 56 pixels. It was measured with onnxruntime 1.32 on processors with VNNI, with
one thread. In the head, the first letter is the type of the data, and the second letter is the type
of the weights: u for uint8, s for int8.

                       uu    us    su    ss
    QLinearConv 3×3  1.89  0.44        7.18
    QLinearMatMul    0.40  0.06        2.06
    ConvInteger 3×3  1.74  8.13  0.52  8.08
    MatMulInteger    0.37  0.04  2.03  2.12
    QGemm            0.39  0.06        2.03

ConvInteger is fast with the opposite types, because its kernel exchanges the operands: the weights
are the left operand of its product.
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
# the largest number of products of two 8-bit integers whose sum always fits into 32 bits
MOST_PRODUCTS = ((1 << 31) - 1) // 255**2


@dataclass(frozen=True)
class Operand:
    """An integer operand: its input, the input of its zero point, and its fast type."""

    value: int  # position of the input
    zero: int  # position of the input with the zero point
    fast: int = 0  # the element type with which the kernel is fast; 0 if both are equally fast


@dataclass(frozen=True)
class IntegerKernel:
    """An operator on 8-bit integers with zero points."""

    operands: tuple[Operand, ...]
    # position of the input with the zero point of the result; None if the result has none
    result_zero: int | None = None
    # The first `alike` operands must have the same type. A quantized result has it, too.
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
# Operators whose signedness must not change, because their results would change: they add the zero
# points in float32. For each operator, the position of the input with the zero point of the result.
# Of 4 million elements, 11 differed for QLinearMul and 19 for QLinearAdd. More differed for
# averages, because averages often are halfway between two integers.
KEPT: dict[tuple[str, str], int] = {
    (MICROSOFT, "QLinearAdd"): 7,
    (MICROSOFT, "QLinearMul"): 7,
    (MICROSOFT, "QLinearAveragePool"): 4,
}
# Operators that move or compare integers → the positions of the inputs with these integers; None
# for all inputs
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
    """The kernel of an operator with this number of inputs; None if the operator is not in the
    table.
    """
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
