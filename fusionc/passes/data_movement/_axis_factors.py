"""The axes of a value as products of factors, to follow its elements through Reshapes and
Transposes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from fusionc.model.graph import Edge, Shape
from fusionc.rewrite import Tape, refuse
from fusionc.shapes.expressions import Element, divided, multiplied

_ASSUMED_SIZE = 64  # the size of an unknown dimension in estimates of costs


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor of the size of an axis. Two factors of the same size are not equal, because they
    belong to different axes.
    """

    size: Element


Axis = tuple[Factor, ...]  # the size of the axis is the product; the empty product is a size of 1
Axes = tuple[Axis, ...]


@dataclass(frozen=True, eq=False)
class Stored:
    """A value of the rewritten model, whose axes may be those of the original in another order."""

    edge: Edge | None  # None before anything is built
    axes: Axes


def size_of(axis: Sequence[Factor]) -> Element:
    """The size of an axis. Refuses an expression that is too long."""
    size: Element = 1
    for factor in axis:
        size = _product(size, factor.size)
    return size


def _product(a: Element, b: Element) -> Element:
    size = multiplied(a, b)
    if size is None:
        refuse("the size of an axis is too complicated")
    return size


def flat(axes: Axes) -> Axis:
    """All factors in the order of the elements in memory."""
    return tuple(chain(*axes))


class Factors:
    """The factors of the axes of several values. If a Reshape splits an axis of one value, the
    factor of this axis is split in all values.
    """

    def __init__(self) -> None:
        self._parts: dict[Factor, Axis] = {}

    def axes(self, shape: Shape | None) -> Axes | None:
        """New axes of this shape; None if a dimension is unknown or 0."""
        if shape is None or None in shape or 0 in shape:
            return None
        return tuple(() if size == 1 else (Factor(size),) for size in shape if size is not None)

    def resolved(self, axes: Axes) -> Axes:
        """The axes, with each factor that has been split replaced by its parts."""
        return tuple(tuple(self._leaves(axis)) for axis in axes)

    def _leaves(self, axis: Iterable[Factor]) -> Iterator[Factor]:
        for factor in axis:
            parts = self._parts.get(factor)
            yield from (factor,) if parts is None else self._leaves(parts)

    def regrouped(self, axes: Axes, shape: Shape | None) -> Axes | None:
        """The axes after a Reshape to this shape. None if the Reshape does not only join axes and
        split axes.
        """
        if shape is None or None in shape or 0 in shape:
            return None
        remaining = list(flat(self.resolved(axes)))
        regrouped: list[Axis] = []
        for size in shape:
            axis = self._take(remaining, 1 if size is None else size)
            if axis is None:
                return None
            regrouped.append(axis)
        return None if remaining else tuple(regrouped)

    def _take(self, remaining: list[Factor], size: Element) -> Axis | None:
        """Remove factors from the front until their product is this size, and return them. The last
        of them may have to be split. None if the factors do not allow that.
        """
        axis = []
        while size != 1:
            if not remaining:
                return None
            factor = remaining.pop(0)
            rest = divided(size, factor.size)
            if rest is None:
                rest = divided(factor.size, size)
                if rest is None:
                    return None
                parts = (Factor(size), Factor(rest))
                self._parts[factor] = parts
                remaining.insert(0, parts[1])
                factor = parts[0]
                rest = 1
            axis.append(factor)
            size = rest
        return tuple(axis)


@dataclass
class Mover:
    """Reshapes and transposes values. If `new` is None, no nodes are built, and only the costs are
    counted.
    """

    new: Tape | None
    factors: Factors
    transposes: int = 0
    transposed_elements: int = 0
    _reshaped: dict[tuple[Stored, Axes], Stored] = field(default_factory=dict)

    def node(self, op: str, inputs: Sequence[Edge | None], **options: object) -> Edge | None:
        """The result of a new node. None if no nodes are built."""
        return None if self.new is None else self.new.node(op, inputs, **options)

    def count_transpose(self, axes: Axes) -> None:
        self.transposes += 1
        sizes = [factor.size for factor in flat(axes)]
        self.transposed_elements += int(
            np.prod([size if isinstance(size, int) else _ASSUMED_SIZE for size in sizes])
        )

    def arranged(self, stored: Stored, axes: Axes) -> Stored:
        """The value with these axes, by at most two Reshapes and one Transpose."""
        source = self.factors.resolved(stored.axes)
        target = self.factors.resolved(axes)
        if flat(source) == flat(target):
            return self.reshaped(stored, target)
        after = _units(source, target)
        place = {factor: index for index, factor in enumerate(flat(source))}
        before = sorted(filter(None, after), key=lambda unit: place[unit[0]])
        if () not in after:  # keep axes of size 1 where the value has them, which saves a Reshape
            after = _with_ones(after, source)
        before = _with_ones(before, after)
        order = [before.index(unit) if unit else index for index, unit in enumerate(after)]
        split = self.reshaped(stored, tuple(before))
        self.count_transpose(target)
        turned = Stored(self.node("Transpose", [split.edge], perm=order), tuple(after))
        return self.reshaped(turned, target)

    def reshaped(self, stored: Stored, axes: Axes) -> Stored:
        """The value with these axes, which have the same factors in the same order."""
        source = self.factors.resolved(stored.axes)
        if source == axes:
            return stored
        key = (stored, axes)
        if key not in self._reshaped:
            shape = _written_shape(source, axes)
            edge = None
            if self.new is not None:
                edge = self.node(
                    "Reshape", [stored.edge, self.new.const(np.array(shape, np.int64))]
                )
            self._reshaped[key] = Stored(edge, axes)
        return self._reshaped[key]


def _units(source: Axes, target: Axes) -> list[Axis]:
    """The parts of axes that a Transpose has to move, in the order of `target`. Factors that are
    neighbours in both `source` and `target` stay in one part. An axis of size 1 is its own part.
    """
    place = {
        factor: (index, number)
        for number, (index, factor) in enumerate(
            (index, factor) for index, axis in enumerate(source) for factor in axis
        )
    }
    units: list[list[Factor]] = []
    for axis in target:
        units += [] if axis else [[]]
        for position, factor in enumerate(axis):
            index, number = place[factor]
            if position and place[axis[position - 1]] == (index, number - 1):
                units[-1].append(factor)
            else:
                units.append([factor])
    return [tuple(unit) for unit in units]


def _with_ones(axes: Sequence[Axis], pattern: Sequence[Axis]) -> list[Axis]:
    """The axes, with an axis of size 1 wherever the pattern has one."""
    result = list(axes)
    for index, axis in enumerate(pattern):
        if not axis:
            result.insert(index, axis)
    return result


def _written_shape(source: Axes, axes: Axes) -> list[int]:
    """The shape for a Reshape: numbers, 0 for a size that stays at its axis, and one −1."""
    shape = []
    for axis, before in zip(axes, (*source, *[None] * len(axes)), strict=False):
        size = size_of(axis)
        shape.append(size if isinstance(size, int) else 0 if axis == before else -1)
    if shape.count(-1) > 1:
        refuse("a new Reshape would need two sizes that are unknown before the model runs")
    return shape
