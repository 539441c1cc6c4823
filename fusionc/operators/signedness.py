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

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT

UNSIGNED = int(TensorProto.UINT8)
SIGNED = int(TensorProto.INT8)
OPPOSITE = {UNSIGNED: SIGNED, SIGNED: UNSIGNED}


@dataclass(frozen=True)
class Operand:
    """An integer operand: the inputs that hold it and its zero point, and the type that is fast."""

    value: int
    zero: int
    fast: int


def _product(data: tuple[int, int], weights: tuple[int, int]) -> tuple[Operand, ...]:
    return Operand(*data, UNSIGNED), Operand(*weights, SIGNED)


# By domain and operator: the data, then the weights.
OPERANDS: dict[tuple[str, str], tuple[Operand, ...]] = {
    ("", "QLinearConv"): _product((0, 2), (3, 5)),
    ("", "QLinearMatMul"): _product((0, 2), (3, 5)),
    ("", "MatMulInteger"): _product((0, 2), (1, 3)),
    ("", "ConvInteger"): (Operand(0, 2, SIGNED), Operand(1, 3, UNSIGNED)),
    (MICROSOFT, "QGemm"): _product((0, 2), (3, 5)),
    (MICROSOFT, "MatMulIntegerToFloat"): _product((0, 4), (1, 5)),
    (MICROSOFT, "DynamicQuantizeMatMul"): (Operand(1, 3, SIGNED),),
    (MICROSOFT, "DynamicQuantizeLSTM"): (Operand(1, 9, SIGNED), Operand(2, 11, SIGNED)),
}
# The input that holds the zero point of what an operator makes.
ZERO_OF_RESULT: dict[tuple[str, str], int] = {
    ("", "QuantizeLinear"): 2,
    ("", "QLinearConv"): 7,
    ("", "QLinearMatMul"): 7,
    (MICROSOFT, "QuantizeLinear"): 2,
    (MICROSOFT, "QGemm"): 8,
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
