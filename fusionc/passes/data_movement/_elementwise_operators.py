"""Operators that compute element by element, past which others may move."""

from __future__ import annotations

from fusionc.model.graph import Node
from fusionc.model.operators import has_legacy_axis

# Each element of the result comes from the element of the first input at the same place; other inputs are scalars.
_OF_ONE = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitwiseNot",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Not",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
    }
)
# The same of several inputs, broadcast to one shape.
_OF_SEVERAL = frozenset(
    {
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "PRelu",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    }
)
_BROADCASTING = 8  # the opset since which all of them broadcast like numpy


def is_of_one(node: Node) -> bool:
    """Whether the operator computes each element from one element of its first input."""
    return node.domain == "" and node.op in _OF_ONE and not node.has_references


def is_of_several(node: Node) -> bool:
    """Whether the operator computes each element from one element of each of its inputs, broadcast."""
    is_one = node.domain == "" and node.op in _OF_SEVERAL and not node.has_references
    return is_one and node.graph.opset >= _BROADCASTING and not has_legacy_axis(node)
