"""Operators that onnxruntime computes in integers between DequantizeLinear and QuantizeLinear.

The table records what onnxruntime 1.32 does with each operator, type and following operator when
it loads a model. Tests compare the table with onnxruntime.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, operators_with, places_of

# DynamicQuantizeLinear is not part of a group, because its scale is unknown before the model runs.
QUANTIZE = operators_with(Trait.QUANTIZES) - {("", "DynamicQuantizeLinear")}
DEQUANTIZE = operators_with(Trait.DEQUANTIZES)
BYTES = frozenset({TensorProto.UINT8, TensorProto.INT8, TensorProto.UNDEFINED})

# By name, the positions of the inputs that must be dequantized; None for all inputs.
BETWEEN = {name: places for (_, name), places in places_of(Trait.IN_INTEGERS).items()}
# Operators that also have an integer form with a floating-point result.
PRODUCTS = names_with(Trait.FLOAT_RESULT)
# Operators whose two operands may have different types: the second one holds weights.
WEIGHTED = PRODUCTS | {"Conv"}
# Operators that compute on integers themselves, without DequantizeLinear and QuantizeLinear.
ON_INTEGERS = operators_with(Trait.ON_INTEGERS)
# Operators that onnxruntime exchanges with a DequantizeLinear or QuantizeLinear next to them.
PASSED = names_with(Trait.PASSES_INTEGERS)

FLOAT_RESULT = 1  # the result is floating-point
INTEGERS = 2  # the result consists of integers
# The operators on integers that passes create, and the kind of their results.
MADE = {
    (MICROSOFT, name): FLOAT_RESULT for name in names_with(Trait.FLOAT_RESULT, domain=MICROSOFT)
}
