"""The additional cost of a reduction whose elements are not next to each other in memory.

For example, a sum over the rows of an image reads one element of each row. A kernel gathers these
elements for one sum after the other. onnxruntime is faster: it adds whole rows to each other, which
computes all sums together.
"""

from __future__ import annotations

from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.loop_nest import LoopNest
from fusionc.graph_kernel.lower.steps import Access

# The additional costs for one element, in sixteenths of a nanosecond as in `Step.cost`.
_GATHERED = 8
_INSERTED = 20  # for a smaller element: processors can gather only elements of 4 or 8 bytes
_LEAST_GATHERED = 4  # bytes of the smallest element that processors can gather


def stride_cost(text: LoopNestText, nest: LoopNest, info: AreaInfo) -> int:
    """The additional cost of a nest of loops, for one element. It is 0 unless the nest reduces
    elements that are not next to each other.
    """
    if not any(step.reduction for step in nest.steps.made):
        return 0
    reads = [access for access in text.accesses if _is_strided(text, access)]
    sizes = [info.ctype(access.tensor).bytes for access in reads]
    return sum(_GATHERED if size >= _LEAST_GATHERED else _INSERTED for size in sizes)


def _is_strided(text: LoopNestText, access: Access) -> bool:
    return (access.index.factor(text.row[-1]).number or 0) > 1
