"""The operators of graph kernel fusion as data: what may be in a cluster, what is expanded, what kind each one is."""

from __future__ import annotations

from enum import IntEnum

from fusionc.model.operators import MICROSOFT


class OperatorKind(IntEnum):
    """What an operator does to the shape; of operators that are fused the highest kind counts."""

    RESHAPE = 1
    ELEMWISE = 2
    BROADCAST = 3
    REDUCE = 4
    OPAQUE = 5


def _kinds(kind: OperatorKind, names: str) -> dict[str, OperatorKind]:
    return dict.fromkeys(names.split(), kind)


_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Celu Clip Cos
Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less
LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
"""
_REDUCTIONS = """
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""
_KINDS = (
    _kinds(OperatorKind.RESHAPE, "Flatten Identity Reshape Squeeze Unsqueeze")
    | _kinds(OperatorKind.ELEMWISE, _ELEMENTWISE)
    | _kinds(OperatorKind.BROADCAST, "Expand Tile")
    | _kinds(OperatorKind.REDUCE, _REDUCTIONS + "ArgMax ArgMin")
)

_DATA_MOVEMENT = "Concat Expand Flatten Gather Identity Reshape Slice Split Squeeze Transpose Unsqueeze"
_ROW_BY_ROW = "LayerNormalization LogSoftmax RMSNormalization Softmax" + _REDUCTIONS
_EXPAND = """
CastLike Celu Elu Gelu HardSigmoid HardSwish LeakyRelu PRelu ReduceL1 ReduceSumSquare Relu Selu Shrink
Softsign Swish ThresholdedRelu
"""

# Operators that only say where an element lies: in a kernel they are addresses, and cost nothing.
DATA_MOVEMENT = frozenset(_DATA_MOVEMENT.split())
# Operators that compute rows, one by one.
ROW_BY_ROW = frozenset(_ROW_BY_ROW.split())
CLUSTER = frozenset(_ELEMENTWISE.split()) | DATA_MOVEMENT | ROW_BY_ROW
# The operator whose result depends on sizes alone; what is computed from it is a packet.
SOURCE_OF_SIZES = "Shape"
# What MindSpore's Square is in ONNX: with the exponent 2 it can be expanded, to x · x.
SQUARE = "Pow"
COMPUTED = CLUSTER | {SOURCE_OF_SIZES}
# Operators that may stand as their definition. Those of Softplus and Mish overflow; those of LayerNormalization and
# RMSNormalization compute shapes, and in float32 where runtimes compute in the type of the input.
EXPAND = frozenset(_EXPAND.split()) | {f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")}


def qualified(op: str, domain: str) -> str:
    """The name of an operator in lists and flags: with its domain where that is not the standard one."""
    return f"{domain}.{op}" if domain else op


def kind_of(op: str) -> OperatorKind:
    """The kind of a standard operator."""
    return _KINDS.get(op, OperatorKind.OPAQUE)
