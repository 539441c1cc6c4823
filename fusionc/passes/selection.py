"""Gather and Slice seen as one: some of the rows that lie along one axis of a value."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.passes.slicing import Cut, cuts_of, new_slice, new_unsqueeze
from fusionc.rewrite import Tape


@dataclass(frozen=True)
class Selection:
    """The rows that a Gather or Slice takes along one axis; `count` None where at most one is taken."""

    node: Node
    axis: int
    count: int | None
    cut: Cut | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether the axis goes: the index is a scalar."""
        index = self.node.inputs[1] if self.cut is None else None
        return index is not None and index.rank == 0

    def of(self, value: Edge, axis: int, new: Tape) -> Edge:
        """The same rows of another value, whose axis stays."""
        if self.cut is not None:
            return new_slice(new, value, [Cut(axis, self.cut.start, self.cut.end, self.cut.step)])
        index = self.node.inputs[1]
        assert index is not None
        if self.is_dropped:
            array = index.constant()
            index = new_unsqueeze(new, index, [0]) if array is None else new.const(array.reshape(1), like=index)
        made: Edge = new.Gather(value, index, axis=axis)
        return made


def selection_of(node: Node) -> Selection | None:
    """What a Gather or Slice takes, where that is at most half of the rows."""
    x = node.inputs[0]
    shape = None if x is None else x.shape
    if not shape or node.has_references:
        return None
    if node.op == "Gather":
        axis, index = node.attr("axis") % len(shape), node.inputs[1]
        taken = None if index is None else index.shape
        count = 1 if taken == () else taken[0] if taken is not None and len(taken) == 1 else None
        is_few = isinstance(count, int) and 0 < 2 * count <= (d if isinstance(d := shape[axis], int) else 2)
        return Selection(node, axis, count) if is_few and isinstance(count, int) else None
    cuts = cuts_of(node)
    if cuts is None or len(cuts) != 1 or cuts[0].step < 1:
        return None
    cut, axis = cuts[0], cuts[0].axis % len(shape)
    size = shape[axis]
    if isinstance(size, int):
        count = len(range(*slice(cut.start, cut.end, cut.step).indices(size)))
        return Selection(node, axis, count, cut) if 0 < 2 * count <= size else None
    return Selection(node, axis, None, cut) if cut.is_single else None
