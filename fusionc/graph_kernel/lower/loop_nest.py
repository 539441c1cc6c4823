"""From an area to loop nests: an output's own axes are the loops.

Slices, transposes and the like only change the index that is asked for, so they cost nothing; a Concat cuts a loop
into several, and a Reshape may split one into an outer and an inner loop. What is asked for twice at the same index is
computed once. Axes that are reduced are the row of a nest.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from fusionc.shapes.polynomials import ONE, ZERO

_MOST_NESTS = 16


@dataclass(frozen=True)
class LoopNest:
    """A nest of loops: the `grid` in any order, and for each of its turns the `row`, which is empty if nothing is
    reduced. The stores name all steps that are needed.
    """

    grid: tuple[Variable, ...]
    row: tuple[Variable, ...]
    steps: Steps
    stores: tuple[Store, ...]


def loop_nests_of(info: AreaInfo) -> list[LoopNest]:
    """What a kernel computes, one loop nest after another."""
    nests: list[LoopNest] = []
    left = sorted(info.area.outputs, key=lambda name: _rank_of(info.shapes[name]), reverse=True)
    while left:
        main, *others = left
        loops = [Variable(size) for size in info.shapes[main]]
        at = tuple(map(index_of, loops))
        made, stored = _nests(info, main, others, at, [v for v in loops if v.extent != ONE])
        nests += made
        left = [name for name in others if name not in stored]
        if len(nests) > _MOST_NESTS:
            raise Unsupported("Concats cut this area into too many pieces")
    return nests


def _rank_of(shape: KernelShape) -> tuple[int, int]:
    """A larger iteration space has more loops."""
    return sum(size != ONE for size in shape), len(shape)


def _nests(
    info: AreaInfo, main: str, others: list[str], at: tuple[Index, ...], loops: list[Variable]
) -> tuple[list[LoopNest], list[str]]:
    """The nests that compute `main` at `at`, and which other outputs all of them could compute beside it."""
    lowering = Lowering(info, loops, OPERATORS)
    try:
        step = lowering.at(main, at)
    except SplitWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        inner = [Variable(size) for size in wanted.extents]
        whole = linear([index_of(v) for v in inner], wanted.extents)
        return _nests(
            info,
            main,
            others,
            _replaced(at, wanted.variable, whole),
            _instead(loops, wanted.variable, inner),
        )
    except CutWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        made = list[LoopNest]()
        begin = ZERO
        for size in wanted.extents:
            part = Variable(size)
            index = index_of(part).moved(begin)
            rest = [part] if size != ONE else []
            nests, _ = _nests(
                info,
                main,
                [],
                _replaced(at, wanted.variable, index),
                _instead(loops, wanted.variable, rest),
            )
            made += nests
            begin += size
            if len(made) > _MOST_NESTS:
                break
        return made, []
    stores = [lowering.store(main, at, step)]
    stored = []
    for name in others:
        store = lowering.beside(name, main, at)
        if store is not None:
            stores.append(store)
            stored.append(name)
    row = lowering.row or ()
    grid = tuple(v for v in loops if v not in row)
    return [LoopNest(grid, row, lowering.steps, tuple(stores))], stored


def _must_be_loop(variable: Variable, loops: list[Variable]) -> None:
    if variable not in loops:
        raise Unsupported("it reduces over an axis that a Concat or a Reshape has made")


def _replaced(at: Sequence[Index], variable: Variable, index: Index) -> tuple[Index, ...]:
    return tuple(old.replaced({variable: index}) for old in at)


def _instead(loops: list[Variable], variable: Variable, new: list[Variable]) -> list[Variable]:
    return [v for old in loops for v in (new if old is variable else [old])]
