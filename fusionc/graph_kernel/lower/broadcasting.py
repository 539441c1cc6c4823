"""Broadcasting: the common shape of operands, and which element of each operand is used."""

from __future__ import annotations

from collections.abc import Sequence

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape
from fusionc.graph_kernel.lower.index import Index
from fusionc.operators.polynomials import ONE


def broadcast_shape(info: AreaInfo, shapes: Sequence[KernelShape]) -> KernelShape:
    """The common shape of operands that are broadcast."""
    rank = max(map(len, shapes), default=0)
    result = [ONE] * rank
    for shape in shapes:
        for back, size in enumerate(reversed(shape), 1):
            result[-back] = info.sizes.broadcast(result[-back], size)
    return tuple(result)


def broadcast_index(
    info: AreaInfo, name: str, whole: KernelShape, at: Sequence[Index]
) -> tuple[Index, ...]:
    """The index, in an operand, of the element that belongs to the element `at` of the common shape
    `whole`.
    """
    shape = info.shapes[name]
    found = []
    for size, full, index in zip(
        shape, whole[len(whole) - len(shape) :], at[len(at) - len(shape) :], strict=True
    ):
        if size == full:
            found.append(index)
        else:
            found.append(Index() if size == ONE else index.times(info.sizes.unless_one(size)))
    return tuple(found)
