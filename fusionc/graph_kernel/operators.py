"""The operators of graph kernel fusion as data: what may be in a cluster, what is expanded, what kind each one is."""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum

import onnx.defs

from fusionc.graph_kernel.flags import Flags
from fusionc.model.operators import MICROSOFT


class Kind(IntEnum):
    """What an operator does to the shape; of operators that are fused the highest kind counts."""

    RESHAPE = 1
    ELEMWISE = 2
    BROADCAST = 3
    REDUCE = 4
    OPAQUE = 5


def _kinds(kind: Kind, names: str) -> dict[str, Kind]:
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
    _kinds(Kind.RESHAPE, "Flatten Identity Reshape Squeeze Unsqueeze")
    | _kinds(Kind.ELEMWISE, _ELEMENTWISE)
    | _kinds(Kind.BROADCAST, "Expand Tile")
    | _kinds(Kind.REDUCE, _REDUCTIONS + "ArgMax ArgMin")
)

_ADDRESSING = "Concat Expand Flatten Gather Identity Reshape Slice Split Squeeze Transpose Unsqueeze"
_ROW_BY_ROW = "LayerNormalization LogSoftmax RMSNormalization Softmax" + _REDUCTIONS
_EXPAND = """
CastLike Celu Elu Gelu HardSigmoid HardSwish LeakyRelu PRelu ReduceL1 ReduceSumSquare Relu Selu Shrink
Softsign Swish ThresholdedRelu
"""

# Operators that only say where an element lies: in a kernel they are addresses, and cost nothing.
ADDRESSING = frozenset(_ADDRESSING.split())
# Operators that compute rows, one by one.
ROW_BY_ROW = frozenset(_ROW_BY_ROW.split())
CLUSTER = frozenset(_ELEMENTWISE.split()) | ADDRESSING | ROW_BY_ROW
# The operator whose result depends on sizes alone; what is computed from it is a packet.
SOURCE_OF_SIZES = "Shape"
# Operators that may stand as their definition. Those of Softplus and Mish overflow; those of LayerNormalization and
# RMSNormalization compute shapes, and in float32 where runtimes compute in the type of the input.
EXPAND = frozenset(_EXPAND.split()) | {f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")}


def qualified(op: str, domain: str) -> str:
    """The name of an operator in lists and flags: with its domain where that is not the standard one."""
    return f"{domain}.{op}" if domain else op


def kind_of(op: str) -> Kind:
    """The kind of a standard operator."""
    return _KINDS.get(op, Kind.OPAQUE)


def misnamed(flags: Flags) -> list[str]:
    """A warning for each name in a list of operators that is none of ONNX's. With a domain, it may be anybody's."""
    listed = flags.entries("_ops", "_ops_only")
    wrong = [(which, name) for which, name in listed if "." not in name and not onnx.defs.has(name)]
    known = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}) if wrong else []
    found = []
    for which, name in wrong:
        near = get_close_matches(name, known, n=1)
        advice = f'; did you mean "{near[0]}"?' if near else ""
        found.append(f'the flag "--{which}": ONNX has no operator "{name}"{advice}')
    return found
