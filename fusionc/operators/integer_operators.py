"""Operators that onnxruntime computes in integers if they are part of an integer group: an operator
between a DequantizeLinear of each of its inputs and a QuantizeLinear of its result.

The tables record what onnxruntime 1.32 does with such groups when it loads a model. Tests compare
them with onnxruntime.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, operators_with, places_of

# DynamicQuantizeLinear is never part of an integer group, because its scale is unknown before the
# model runs.
QUANTIZE = operators_with(Trait.QUANTIZES) - {("", "DynamicQuantizeLinear")}
DEQUANTIZE = operators_with(Trait.DEQUANTIZES)
# the 8-bit types; an unknown type may be one of them
BYTES = frozenset({TensorProto.UINT8, TensorProto.INT8, TensorProto.UNDEFINED})

# the name of each operator → the positions of the inputs that must be dequantized; None for all
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
# the operators on integers that passes create → the kind of their results
MADE = {
    (MICROSOFT, name): FLOAT_RESULT for name in names_with(Trait.FLOAT_RESULT, domain=MICROSOFT)
}
