"""The operators of graph kernel fusion as data: those in clusters, those that are expanded, and
their kinds.
"""

from __future__ import annotations

from enum import IntEnum

from fusionc.graph_kernel.lower.data_movement import DATA_MOVEMENT
from fusionc.graph_kernel.lower.elementwise import ELEMENTWISE
from fusionc.graph_kernel.lower.reductions import REDUCTIONS
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with


class OperatorKind(IntEnum):
    """How an operator's result depends on its inputs. The kind of a fused operator is the highest
    kind of its parts.
    """

    RESHAPE = 1
    ELEMWISE = 2
    BROADCAST = 3
    REDUCE = 4
    OPAQUE = 5


# Kernels do not compute all of these. MindSpore takes all of them into areas, and areas without
# kernels may have them here.
_ELEMENTWISE = names_with(Trait.UNARY, Trait.BROADCASTS)
# Operators that only move elements. A kernel computes their elements' addresses, so they cost
# nothing.
MOVES_DATA = frozenset(DATA_MOVEMENT)
# Operators that compute a row (such as a sum or a softmax) after the other.
ROW_BY_ROW = frozenset(REDUCTIONS)
CLUSTER = _ELEMENTWISE | MOVES_DATA | ROW_BY_ROW
# The operator whose result depends only on sizes. Operators that compute with its result form a
# packet.
SOURCE_OF_SIZES = "Shape"
# ONNX's operator for MindSpore's Square: with the exponent 2 it can be expanded, to x · x.
SQUARE = "Pow"
# Operators that may be replaced by their definitions. The definitions of Softplus and Mish
# overflow, so they are not among them. Those of LayerNormalization and RMSNormalization compute
# shapes, and use float32 although runtimes use the type of the input.
_EXPAND = """
CastLike Celu Elu Gelu HardSigmoid HardSwish LeakyRelu PRelu ReduceL1 ReduceSumSquare Relu Selu
Shrink Softsign Swish ThresholdedRelu
"""
EXPAND = frozenset(_EXPAND.split()) | {
    f"{MICROSOFT}.{name}" for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
}

# Operators that a kernel may compute, itself or expanded.
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
