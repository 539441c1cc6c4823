"""The cost of a reduction whose elements lie far from each other in memory.

A sum over rows of an image reads one element of each row. A kernel gathers them. onnxruntime
reduces all columns together, row by row.
"""

from __future__ import annotations

from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.loop_nest import LoopNest
from fusionc.graph_kernel.lower.steps import Access

# Sixteenths of a nanosecond for each element, on the scale of `Step.cost`.
_GATHERED = 8
_INSERTED = 20  # processors gather elements of 4 and of 8 bytes only
_LEAST_GATHERED = 4  # bytes


def stride_cost(text: LoopNestText, nest: LoopNest, info: AreaInfo) -> int:
    """The additional cost of an element if a nest of loops reduces elements that lie apart."""
    if not any(step.reduction for step in nest.steps.made):
        return 0
    reads = [access for access in text.accesses if _is_strided(text, access)]
    sizes = [info.ctype(access.tensor).bytes for access in reads]
    return sum(_GATHERED if size >= _LEAST_GATHERED else _INSERTED for size in sizes)


def _is_strided(text: LoopNestText, access: Access) -> bool:
    return (access.index.factor(text.row[-1]).number or 0) > 1
