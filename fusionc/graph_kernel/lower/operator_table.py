"""All operators that kernels of loops compute, and their lowerings."""

from __future__ import annotations

from fusionc.graph_kernel.lower.data_movement import DATA_MOVEMENT
from fusionc.graph_kernel.lower.elementwise import ELEMENTWISE
from fusionc.graph_kernel.lower.lowering import OperatorLowering
from fusionc.graph_kernel.lower.reductions import REDUCTIONS
from fusionc.graph_kernel.lower.shape_operator import SHAPE

OPERATORS: dict[str, OperatorLowering] = DATA_MOVEMENT | ELEMENTWISE | REDUCTIONS | SHAPE
