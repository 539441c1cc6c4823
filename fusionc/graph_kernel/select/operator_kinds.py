"""The operators of graph kernel fusion as data: what may be in a cluster, what is expanded, what
kind each one is.
"""

from __future__ import annotations

from enum import IntEnum

from fusionc.graph_kernel.lower.data_movement import DATA_MOVEMENT
from fusionc.graph_kernel.lower.reductions import REDUCTIONS
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with


class OperatorKind(IntEnum):
    """What an operator does to the shape; of operators that are fused the highest kind counts."""

    RESHAPE = 1
    ELEMWISE = 2
    BROADCAST = 3
    REDUCE = 4
    OPAQUE = 5


# More than kernels compute: MindSpore takes them into areas, too, and areas without kernels may have
# them.
_ELEMENTWISE = names_with(Trait.UNARY, Trait.BROADCASTS)
# Operators that only say where an element lies: in a kernel they are addresses, and cost nothing.
MOVES_DATA = frozenset(DATA_MOVEMENT)
# Operators that compute rows, one by one.
ROW_BY_ROW = frozenset(REDUCTIONS)
CLUSTER = _ELEMENTWISE | MOVES_DATA | ROW_BY_ROW
# The operator whose result depends on sizes alone; what is computed from it is a packet.
SOURCE_OF_SIZES = "Shape"
# What MindSpore's Square is in ONNX: with the exponent 2 it can be expanded, to x · x.
SQUARE = "Pow"
COMPUTED = CLUSTER | {SOURCE_OF_SIZES}
# Operators that may stand as their definition. Those of Softplus and Mish overflow; those of
# LayerNormalization and RMSNormalization compute shapes, and in float32 where runtimes compute in
# the type of the input.
_EXPAND = """
CastLike Celu Elu Gelu HardSigmoid HardSwish LeakyRelu PRelu ReduceL1 ReduceSumSquare Relu Selu Shrink
Softsign Swish ThresholdedRelu
"""
EXPAND = frozenset(_EXPAND.split()) | {
    f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
}


_KINDS = (
    dict.fromkeys(_ELEMENTWISE, OperatorKind.ELEMWISE)
    | dict.fromkeys(names_with(Trait.RESHAPES) | {"Identity"}, OperatorKind.RESHAPE)
    | dict.fromkeys(("Expand", "Tile"), OperatorKind.BROADCAST)
    | dict.fromkeys(names_with(Trait.REDUCES, Trait.FINDS_INDEX), OperatorKind.REDUCE)
)


def kind_of(op: str) -> OperatorKind:
    """The kind of a standard operator."""
    return _KINDS.get(op, OperatorKind.OPAQUE)
