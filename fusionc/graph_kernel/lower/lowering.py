"""Write the elements of an area's values as steps. An operator computes an element of its result
from the elements of its operands that it needs, and asks for these in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape
from fusionc.graph_kernel.lower.broadcasting import broadcast_index
from fusionc.graph_kernel.lower.c_types import CType
from fusionc.graph_kernel.lower.index import (
    CutWanted,
    Element,
    Index,
    SplitWanted,
    Variable,
    index_of,
    linear,
)
from fusionc.graph_kernel.lower.steps import Access, Reduction, Step, Steps
from fusionc.graph_kernel.lower.symbolic_sizes import Size, Unsupported
from fusionc.operators.polynomials import ONE, ZERO, product


@dataclass(frozen=True)
class OperatorLowering:
    """How an operator is lowered. Both functions raise Unsupported if no kernel can compute it."""

    shapes: Callable[[AreaInfo, onnx.NodeProto], list[KernelShape]]  # returns the outputs' shapes
    # returns the step that computes one element of output k
    element: Callable[[Lowering, onnx.NodeProto, int, Sequence[Index]], Step]


@dataclass(frozen=True)
class Store:
    """A step, and the element of an output that gets the step's value."""

    access: Access
    step: Step


class Lowering:
    """The elements of an area's values as steps, for one nest of loops."""

    def __init__(
        self, info: AreaInfo, loops: Sequence[Variable], operators: Mapping[str, OperatorLowering]
    ) -> None:
        self.info = info
        self.loops = loops
        self.steps = Steps()
        self._operators = operators
        self.row: tuple[Variable, ...] | None = None
        self._known: dict[Element, Step] = {}

    def at(self, name: str, at: Sequence[Index]) -> Step:
        """The step that computes the element of a value at an index."""
        key = (name, tuple(at))
        if key not in self._known:
            self._known[key] = self._computed(name, tuple(at))
        return self._known[key]

    def _computed(self, name: str, at: tuple[Index, ...]) -> Step:
        info = self.info
        if name not in info.producers:
            array = info.area.constants.get(name)
            if array is not None and array.size and (array == array.flat[0]).all():
                return self.steps.scalar(info.ctype(name), array.flat[0])
            return self.steps.load(info.ctype(name), Access(name, linear(at, info.shapes[name])))
        node, k = info.producers[name]
        return self._operators[node.op_type].element(self, node, k, at)

    def broadcast(self, operand: str, whole: KernelShape, at: Sequence[Index]) -> Step:
        """The element of an operand that belongs to the element `at` of the common shape `whole`
        when the operand is broadcast.
        """
        return self.at(operand, broadcast_index(self.info, operand, whole, at))

    def over(
        self,
        name: str,
        at: Sequence[Index],
        axes: Sequence[int],
        reduction: Reduction,
        element: Callable[[Step], Step],
    ) -> Step:
        """Apply `element` to each element of a value, and reduce the results over some of its axes.

        `at` is the index on the other axes. Raises Unsupported if another reduction in these loops
        goes over axes of other sizes.
        """
        shape = self.info.shapes[name]
        kept = frozenset[Variable]().union(
            *(at[a].variables for a in range(len(at)) if a not in axes)
        )
        extents = [shape[axis] for axis in axes if shape[axis] != ONE]
        row = self._row(extents, kept) if extents else ()
        variables = iter(row)
        inside = list(at)
        for axis in axes:
            inside[axis] = index_of(next(variables)) if shape[axis] != ONE else Index()
        step = element(self.at(name, inside))
        if not row:
            return self.steps.op(
                step.ctype,
                reduction.combine,
                self.steps.op(step.ctype, reduction.start, cost=0),
                step,
            )
        return self.steps.reduce(step.ctype, reduction, step, row)

    def _row(self, extents: list[Size], kept: frozenset[Variable]) -> tuple[Variable, ...]:
        """The variables of the row. All reductions of a nest have the same row."""
        if self.row is None:
            self.row = self._new_row(extents, kept)
        elif [v.extent for v in self.row] != extents or kept & set(self.row):
            raise Unsupported("its reductions go over different axes")
        return self.row

    def _new_row(self, extents: list[Size], kept: frozenset[Variable]) -> tuple[Variable, ...]:
        """The variables of existing loops that have these extents in this order. If an extent has
        no such loop, its variable is new.
        """
        row: list[Variable] = []
        free = list(self.loops)
        for extent in reversed(extents):
            if row and row[0] not in free:
                free = list(self.loops)
            elif row:
                free = free[: free.index(row[0])]
            fitting = [v for v in free if v.extent == extent and v not in kept]
            row.insert(0, fitting[-1] if fitting else Variable(extent))
        return tuple(row)

    def length(self, ctype: CType, name: str, axes: Sequence[int]) -> Step:
        """The number of elements along some axes taken together."""
        total = product(self.info.shapes[name][axis] for axis in axes)
        if total.number is not None:
            return self.steps.literal(
                ctype, float(total.number) if ctype.is_float else total.number
            )
        return self.steps.op(ctype, f"({ctype.local})length", cost=0)

    def store(self, name: str, at: Sequence[Index], step: Step) -> Store:
        """The store that writes a step to the element of an output at an index."""
        return Store(Access(name, linear(at, self.info.shapes[name])), step)

    def joined_store(self, name: str, main: str, at: tuple[Index, ...]) -> Store | None:
        """The store of another output in the loops of `main`. `None` if these loops do not visit
        each of that output's elements exactly once.
        """
        shape = self.info.shapes[name]
        whole = self.info.shapes[main]
        places = [place for known, place in self._known if known == name]
        if shape == whole:
            places.insert(0, at)
        elif len(shape) == len(whole) and all(
            n in (ONE, m) for n, m in zip(shape, whole, strict=True)
        ):
            places.insert(
                0, tuple(Index() if n == ONE else i for n, i in zip(shape, at, strict=True))
            )
        for place in places:
            before = self._known.copy(), self.steps.copy(), self.row
            try:
                step = self.at(name, place)
                if self._covers(shape, place):
                    return self.store(name, place, step)
            except (Unsupported, CutWanted, SplitWanted):
                pass
            self._known, self.steps, self.row = before
        return None

    def _covers(self, shape: KernelShape, place: Sequence[Index]) -> bool:
        """Whether the loops visit each element of a shape exactly once."""
        row = frozenset(self.row or ())
        total = linear(place, shape)
        used = total.variables
        if used & row and not used >= row:
            return False
        if total.offset != ZERO or not used >= set(self.loops) - row:
            return False
        reach = ONE
        for variable, factor in total.digits:
            if factor != reach:
                return False
            reach *= variable.extent
        return reach == product(shape)
