"""Limits: Clip, Relu, Min and Max as one interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import float_info
from fusionc.operators.clip_bounds import clip_bounds
from fusionc.rewrite import refuse


@dataclass(frozen=True)
class Interval:
    """Limits of each element; the lower one is applied first, as Clip does."""

    low: float = -math.inf
    high: float = math.inf

    def then(self, other: Interval) -> Interval:
        """This interval, then another one. Refuses where the order of the limits would begin to
        matter.
        """
        if self.low > self.high or other.low > other.high:
            refuse("a lower limit above the upper one")
        low, high = (min(max(limit, other.low), other.high) for limit in (self.low, self.high))
        return Interval(low, high)


def interval_of(node: Node, limit: Edge | None = None) -> Interval:
    """What Relu, Clip, or Min or Max of one value and the constant `limit` does. Refuses limits
    that are not known.

    A limit that Clip leaves out is the largest finite number: infinities become finite by it.
    """
    if node.op == "Relu":
        return Interval(low=0.0)
    if limit is not None:
        array = limit.constant()
        number = _limit(array.item() if array is not None and array.size == 1 else None)
        return Interval(high=number) if node.op == "Min" else Interval(low=number)
    low, high = clip_bounds(node, largest_of(node.inputs[0]))
    return Interval(_limit(low), _limit(high))


def largest_of(value: Edge | None) -> float:
    """The largest number of a value's element type; infinity for integers, which nothing limits
    further.
    """
    dtype = None if value is None else value.dtype
    if dtype is None:
        refuse("the element type is unknown")
    return math.inf if dtype.kind in "iu" else float(float_info(dtype).max)


def _limit(number: float | None) -> float:
    if number is None:
        refuse("a limit is not one number that is known")
    if number != number:
        refuse("a limit is NaN")
    return number
