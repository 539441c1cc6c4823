"""From an area to loop nests: the axes of an output are the loops.

Slices, transposes and the like only change an index, so they cost nothing. A Concat cuts a loop
into several, and a Reshape may split one into an outer and an inner loop. An element that is needed
twice is computed once. Reduced axes are the row of a nest.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape
from fusionc.graph_kernel.lower.index import (
    CutWanted,
    Index,
    SplitWanted,
    Variable,
    index_of,
    linear,
)
from fusionc.graph_kernel.lower.lowering import Lowering, Store
from fusionc.graph_kernel.lower.operator_table import OPERATORS
from fusionc.graph_kernel.lower.steps import Steps
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.operators.polynomials import ONE, ZERO

_MOST_NESTS = 16


@dataclass(frozen=True)
class LoopNest:
    """A nest of loops, with a row for each iteration of its grid."""

    grid: tuple[Variable, ...]  # loops that may run in any order
    row: tuple[Variable, ...]  # inner loops that reduce; empty if nothing is reduced
    steps: Steps
    stores: tuple[Store, ...]  # name all steps that are needed


def loop_nests_of(info: AreaInfo) -> list[LoopNest]:
    """The loop nests that a kernel runs one after another."""
    nests: list[LoopNest] = []
    pending = sorted(info.area.outputs, key=lambda name: _rank_of(info.shapes[name]), reverse=True)
    while pending:
        main, *others = pending
        loops = [Variable(size) for size in info.shapes[main]]
        at = tuple(map(index_of, loops))
        new, stored = _nests(info, main, others, at, [v for v in loops if v.extent != ONE])
        nests += new
        pending = [name for name in others if name not in stored]
        if len(nests) > _MOST_NESTS:
            raise Unsupported("Concats cut this area into too many pieces")
    return nests


def _rank_of(shape: KernelShape) -> tuple[int, int]:
    """A larger iteration space has more loops."""
    return sum(size != ONE for size in shape), len(shape)


def _nests(
    info: AreaInfo, main: str, others: list[str], at: tuple[Index, ...], loops: list[Variable]
) -> tuple[list[LoopNest], list[str]]:
    """The nests that compute `main` at `at`, and the other outputs that they compute as well."""
    lowering = Lowering(info, loops, OPERATORS)
    try:
        step = lowering.at(main, at)
    except SplitWanted as wanted:
        inner = [Variable(size) for size in wanted.extents]
        whole = linear([index_of(v) for v in inner], wanted.extents)
        return _nests(info, main, others, *_replaced(at, loops, wanted.variable, whole, inner))
    except CutWanted as wanted:
        return _cut_nests(info, main, at, loops, wanted), []
    stores = {main: lowering.store(main, at, step)}
    for name in others:
        store = lowering.joined_store(name, main, at)
        if store is not None:
            stores[name] = store
    row = lowering.row or ()
    grid = tuple(v for v in loops if v not in row)
    nest = LoopNest(grid, row, lowering.steps, tuple(stores.values()))
    return [nest], [name for name in stores if name != main]


def _cut_nests(
    info: AreaInfo, main: str, at: tuple[Index, ...], loops: list[Variable], wanted: CutWanted
) -> list[LoopNest]:
    """The nests of an output one of whose loops is cut into parts."""
    nests = list[LoopNest]()
    begin = ZERO
    for size in wanted.extents:
        part = Variable(size)
        index = index_of(part).moved(begin)
        rest = [part] if size != ONE else []
        new, _ = _nests(info, main, [], *_replaced(at, loops, wanted.variable, index, rest))
        nests += new
        begin += size
        if len(nests) > _MOST_NESTS:
            break
    return nests


def _replaced(
    at: tuple[Index, ...],
    loops: list[Variable],
    variable: Variable,
    index: Index,
    new: list[Variable],
) -> tuple[tuple[Index, ...], list[Variable]]:
    """Indices and loops with the index in place of a variable, and new loops in place of its loop.

    Raises Unsupported if the variable is not one of the loops.
    """
    if variable not in loops:
        raise Unsupported("it reduces over an axis that a Concat or a Reshape has made")
    indices = tuple(old.replaced({variable: index}) for old in at)
    place = loops.index(variable)
    return indices, [*loops[:place], *new, *loops[place + 1 :]]
