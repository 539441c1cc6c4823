"""Operators that compute element by element, past which others may move."""

from __future__ import annotations

from fusionc.model.graph import Node
from fusionc.model.operators import has_legacy_axis

# Each element of the result comes from the element of the first input at the same place; other
# inputs are scalars. Activations, and what exporters write them out with:
ACTIVATIONS = (
    "Abs", "Celu", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu",
    "Selu", "Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_OF_ONE = frozenset(ACTIVATIONS) | {
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Cos", "Cosh", "Floor", "IsInf",
    "IsNaN", "Log", "Not", "Reciprocal", "Round", "Shrink", "Sign", "Sinh", "Tan",
}  # fmt: skip
# The same of several inputs, broadcast to one shape. Arithmetic with two numbers:
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min")
_OF_SEVERAL = frozenset(ARITHMETIC) | {
    "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mean",
    "Mod", "Or", "Sum", "Where", "Xor",
}  # fmt: skip
BROADCASTING = 8  # the opset since which all of them broadcast like numpy


def is_of_one(node: Node) -> bool:
    """Whether the operator computes each element from one element of its first input."""
    return node.domain == "" and node.op in _OF_ONE and not node.has_references


def is_of_several(node: Node) -> bool:
    """Whether the operator computes each element from one element of each of its inputs,
    broadcast.
    """
    is_one = node.domain == "" and node.op in _OF_SEVERAL and not node.has_references
    return is_one and node.graph.opset >= BROADCASTING and not has_legacy_axis(node)
