"""The cost of converting elements between float16 in memory and float32 in a kernel.

onnxruntime converts with special instructions, and a conversion costs as much as an addition.
Kernels need shifts and comparisons for a conversion, which cost more.
"""

from __future__ import annotations

from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.loop_nest import LoopNest

# The costs for one element, in sixteenths of a nanosecond as in `Step.cost`, without reading and
# writing.
_FROM_HALF = 7
_TO_HALF = 30
_ROUNDED_TO_HALF = 15
_HALF = "uint16_t"  # the C type of a float16 in memory
_ROUND = "gk_round_to_half"


def conversion_cost(text: LoopNestText, nest: LoopNest, info: AreaInfo) -> int:
    """The cost, for one element, of all conversions that a nest of loops makes."""
    stored = {store.access for store in nest.stores}
    halves = [a for a in text.accesses if a.index.terms and info.ctype(a.tensor).stored == _HALF]
    moved = sum(_TO_HALF if access in stored else _FROM_HALF for access in halves)
    return moved + _ROUNDED_TO_HALF * sum(_ROUND in step.template for step in nest.steps.made)
