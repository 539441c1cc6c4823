"""Operators that onnxruntime computes in integers between DequantizeLinear and QuantizeLinear.

Found with onnxruntime 1.32 from the models that it makes at load, for each operator, type and tail;
tests hold the table to it.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, operators_with, places_of

# DynamicQuantizeLinear is none of a group: its scale is known only when the model runs.
QUANTIZE = operators_with(Trait.QUANTIZES) - {("", "DynamicQuantizeLinear")}
DEQUANTIZE = operators_with(Trait.DEQUANTIZES)
BYTES = frozenset({TensorProto.UINT8, TensorProto.INT8, TensorProto.UNDEFINED})

# By name, the inputs that have to be dequantized, None for all.
BETWEEN = {name: places for (_, name), places in places_of(Trait.IN_INTEGERS).items()}
# Those that have a form with a floating-point result as well.
PRODUCTS = names_with(Trait.FLOAT_RESULT)
# Those whose operands may have two types: the second one holds weights.
WEIGHTED = PRODUCTS | {"Conv"}
# What dequantized elements, or those to be quantized, pass through.
PASSED = names_with(Trait.PASSES_INTEGERS)

FLOAT_RESULT = 1  # of a product of integers
INTEGERS = 2
# The operators on integers that passes make, and what their results are.
MADE = {
    (MICROSOFT, name): FLOAT_RESULT for name in names_with(Trait.FLOAT_RESULT, domain=MICROSOFT)
}
