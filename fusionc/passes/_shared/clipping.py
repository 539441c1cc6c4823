"""Limits: Clip, Relu, Min and Max as one interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import float_info
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
        number = _number(limit)
        return Interval(high=number) if node.op == "Min" else Interval(low=number)
    largest = largest_of(node.inputs[0])
    if node.graph.opset < 11:
        low = node.attr("min")
        high = node.attr("max")
        return Interval(-largest if low is None else low, largest if high is None else high)
    low, high = ([*node.inputs[1:], None, None])[:2]
    return Interval(
        -largest if low is None else _number(low), largest if high is None else _number(high)
    )


def largest_of(value: Edge | None) -> float:
    """The largest number of a value's element type; infinity for integers, which nothing limits
    further.
    """
    dtype = None if value is None else value.dtype
    if dtype is None:
        refuse("the element type is unknown")
    return math.inf if dtype.kind in "iu" else float(float_info(dtype).max)


def _number(value: Edge) -> float:
    array = value.constant()
    if array is None or array.size != 1:
        refuse("a limit is not one number that is known")
    number: float = array.item()
    if number != number:
        refuse("a limit is NaN")
    return number
