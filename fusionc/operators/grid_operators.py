"""Operators that put a number on a grid: it becomes the nearest step, or the one below or above."""

from fusionc.operators.domains import MICROSOFT

# whose limits are the whole numbers themselves, not the halves
WHOLE = frozenset({"Floor", "Ceil", "Mod"})
# a grid of one number
COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
# What they make is on a grid, which another model has as well.
GRIDS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "Round", "Floor", "Ceil"})
# These have a grid inside, of what they read first.
GRID_INSIDE = frozenset(
    (MICROSOFT, name) for name in ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulNBits")
)
