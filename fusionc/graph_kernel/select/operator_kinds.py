"""The operators of graph kernel fusion as data: those in clusters, those that are expanded, and the
kind of each.
"""

from __future__ import annotations

from enum import IntEnum

from fusionc.graph_kernel.lower.data_movement import DATA_MOVEMENT
from fusionc.graph_kernel.lower.elementwise import ELEMENTWISE
from fusionc.graph_kernel.lower.reductions import REDUCTIONS
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with


class OperatorKind(IntEnum):
    """How an operator's result depends on its inputs. An operator that is fused from several has
    the highest of their kinds.
    """

    RESHAPE = 1
    ELEMWISE = 2
    BROADCAST = 3
    REDUCE = 4
    OPAQUE = 5


# Kernels do not compute all of these operators. They are in the list because MindSpore takes all of
# them into areas, and because areas without kernels may contain them.
_ELEMENTWISE = names_with(Trait.UNARY, Trait.BROADCASTS)
# Operators that only move elements. A kernel computes the addresses of the elements instead, so
# these operators cost nothing.
MOVES_DATA = frozenset(DATA_MOVEMENT)
# Operators that compute one row after the other (such as a sum or a softmax).
ROW_BY_ROW = frozenset(REDUCTIONS)
CLUSTER = _ELEMENTWISE | MOVES_DATA | ROW_BY_ROW
# The operator whose result depends only on sizes. The operators that compute with its result form a
# packet with it.
SOURCE_OF_SIZES = "Shape"
# ONNX's operator for MindSpore's Square. If the exponent is 2, it can be expanded to x · x.
SQUARE = "Pow"
# Operators that may be replaced by their definitions. Softplus and Mish are missing, because their
# definitions overflow. LayerNormalization and RMSNormalization are missing, because their
# definitions compute shapes, and compute in float32 where runtimes compute in the type of the
# input.
_EXPAND = """
CastLike Celu Elu Gelu HardSigmoid HardSwish LeakyRelu PRelu ReduceL1 ReduceSumSquare Relu Selu
Shrink Softsign Swish ThresholdedRelu
"""
EXPAND = frozenset(_EXPAND.split()) | {
    f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
}

# Operators that a kernel may compute, either as they are or expanded.
COMPUTED = frozenset(ELEMENTWISE) | MOVES_DATA | ROW_BY_ROW | EXPAND | {SOURCE_OF_SIZES}

_KINDS = (
    dict.fromkeys(_ELEMENTWISE, OperatorKind.ELEMWISE)
    | dict.fromkeys(names_with(Trait.RESHAPES) | {"Identity"}, OperatorKind.RESHAPE)
    | dict.fromkeys(("Expand", "Tile"), OperatorKind.BROADCAST)
    | dict.fromkeys(names_with(Trait.REDUCES, Trait.FINDS_INDEX), OperatorKind.REDUCE)
)


def kind_of(op: str) -> OperatorKind:
    """The kind of a standard operator."""
    return _KINDS.get(op, OperatorKind.OPAQUE)
