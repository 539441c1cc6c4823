"""The operators of graph kernel fusion as data: what may be in a cluster, what is expanded, what kind each one is."""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum

import onnx.defs

from fusionc.graph_kernel.flags.operator_names import reason_against
from fusionc.graph_kernel.flags.read_flags import Flags
from fusionc.model.operators import MICROSOFT, is_composite


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
_COMPUTED = CLUSTER | {SOURCE_OF_SIZES}
# Operators that may stand as their definition. Those of Softplus and Mish overflow; those of LayerNormalization and
# RMSNormalization compute shapes, and in float32 where runtimes compute in the type of the input.
EXPAND = frozenset(_EXPAND.split()) | {f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")}


def qualified(op: str, domain: str) -> str:
    """The name of an operator in lists and flags: with its domain where that is not the standard one."""
    return f"{domain}.{op}" if domain else op


def kind_of(op: str) -> OperatorKind:
    """The kind of a standard operator."""
    return _KINDS.get(op, OperatorKind.OPAQUE)


def misnamed(flags: Flags) -> list[str]:
    """A warning for each name in a list of operators that is none of ONNX's. With a domain, it may be anybody's."""
    listed = flags.entries("_ops", "_ops_only")
    wrong = [(which, name) for which, name in listed if "." not in name and not onnx.defs.has(name)]
    known = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}) if wrong else []
    found = []
    for which, name in wrong:
        reason = reason_against(name)
        near = [] if reason else get_close_matches(name, known, n=1)
        advice = f": {reason}" if reason else f'; did you mean "{near[0]}"?' if near else ""
        found.append(f'the flag "--{which}": ONNX has no operator "{name}"{advice}')
    return found


def _has_definition(name: str) -> bool:
    return name == SQUARE or is_composite(name, "", onnx.defs.onnx_opset_version())


def of_no_use(flags: Flags, has_kernels: bool) -> list[str]:
    """A notice for each list that adds operators which are there already, or cannot be there, and why."""
    added = [name for name in flags.enable_cluster_ops if not flags.enable_cluster_ops_only]
    impossible = [name for name in (*added, *flags.enable_cluster_ops_only) if has_kernels and name not in _COMPUTED]
    there = [name for name in added if name in CLUSTER]
    found = []
    if impossible:
        what = f"no kernel computes {', '.join(dict.fromkeys(impossible))}, so that no area has it"
        found.append(f"{what}; with --target onnx, areas are functions without kernels, and may")
    forced = [*flags.enable_expand_ops, *flags.enable_expand_ops_only]
    if basic := [name for name in dict.fromkeys(forced) if onnx.defs.has(name) and not _has_definition(name)]:
        found.append(f"ONNX has no definition of {', '.join(basic)} by other operators: nothing to expand")
    if there:
        found.append(f"--enable_cluster_ops: {', '.join(there)} may be in areas anyway")
    return found
