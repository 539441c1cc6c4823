"""Operators that onnxruntime computes in integers between DequantizeLinear and QuantizeLinear.

Found with onnxruntime 1.32 by what it makes at load, for each operator, type and tail; tests hold
the table to it.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT

QUANTIZE = frozenset({("", "QuantizeLinear"), (MICROSOFT, "QuantizeLinear")})
DEQUANTIZE = frozenset({("", "DequantizeLinear"), (MICROSOFT, "DequantizeLinear")})
BYTES = frozenset({TensorProto.UINT8, TensorProto.INT8, TensorProto.UNDEFINED})

# The inputs that have to be dequantized, None for all. What is made has to be quantized.
BETWEEN: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Softmax"), (0,)),
    **dict.fromkeys(("Add", "Mul", "Conv", "MatMul", "Gemm"), (0, 1)),
    "Concat": None,
    "Where": (1, 2),
}
# Those that have a form with a floating-point result as well.
PRODUCTS = frozenset({"MatMul", "Gemm"})
# Those that read what is of two types: the second operand holds weights.
WEIGHTED = PRODUCTS | {"Conv"}
# What dequantized elements, or such that will be quantized, pass through: it is moved to the other
# side of them.
PASSED = frozenset({"Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})

FLOAT_RESULT = 1  # of a product of integers
INTEGERS = 2
# The operators on integers that passes make, and what their results are.
MADE = dict.fromkeys(
    ((MICROSOFT, "DynamicQuantizeMatMul"), (MICROSOFT, "MatMulIntegerToFloat")), FLOAT_RESULT
)
