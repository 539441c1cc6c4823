"""Turn an area into loop nests. The axes of an output are the loops of its nest.

Slices, transposes and similar operators only change an index, so they cost nothing. A Concat cuts a
loop into consecutive loops. A Reshape may split a loop into an outer and an inner one. An element
that is needed twice is computed once. Reduced axes are the innermost loops; together they are
called the row.
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
    """A nest of loops. The grid is outside; for each of its iterations, a row is computed
    inside.
    """

    grid: tuple[Variable, ...]  # outer loops, whose iterations may run in any order
    row: tuple[Variable, ...]  # inner loops that reduce; empty if nothing is reduced
    steps: Steps
    stores: tuple[Store, ...]  # only their steps, and arguments of these, are needed


def loop_nests_of(info: AreaInfo) -> list[LoopNest]:
    """The loop nests of a kernel, in the order in which they run."""
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
            raise Unsupported("Concats cut its loops into too many pieces")
    return nests


def _rank_of(shape: KernelShape) -> tuple[int, int]:
    """A key that is higher for shapes with more loops."""
    return sum(size != ONE for size in shape), len(shape)


def _nests(
    info: AreaInfo, main: str, others: list[str], at: tuple[Index, ...], loops: list[Variable]
) -> tuple[list[LoopNest], list[str]]:
    """The nests that compute the output `main` at the indices `at`, and the names of those `others`
    that the nests store as well.
    """
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
    """The nests of an output after one of its loops is cut into consecutive loops."""
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
    """The indices and loops after `index` replaces `variable`, and the loops `new` replace its
    loop.

    Raises Unsupported if the variable is not one of the loops.
    """
    if variable not in loops:
        raise Unsupported("it reduces over an axis that a Concat or a Reshape has made")
    indices = tuple(old.replaced({variable: index}) for old in at)
    place = loops.index(variable)
    return indices, [*loops[:place], *new, *loops[place + 1 :]]
