"""Clip, Relu, Min and Max, each described by an interval with a lower and an upper limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import float_info
from fusionc.operators.clip_bounds import clip_bounds
from fusionc.rewrite import refuse, require_known


@dataclass(frozen=True)
class Interval:
    """Lower and upper limit of each element. The lower one is applied first, as in Clip."""

    low: float = -math.inf
    high: float = math.inf

    def then(self, other: Interval) -> Interval:
        """The single interval with the effect of this interval followed by `other`. Refuses if the
        lower limit of one of them is above its upper limit, because the order of the limits would
        then matter.
        """
        if self.low > self.high or other.low > other.high:
            refuse("a lower limit is above the upper one")
        low, high = (min(max(limit, other.low), other.high) for limit in (self.low, self.high))
        return Interval(low, high)


def interval_of(node: Node, limit: Edge | None = None) -> Interval:
    """The interval of Relu, of Clip, or of Min or Max with the constant `limit`. Refuses limits
    that are not constant, or that are NaN.

    If a Clip omits a limit, the largest finite number of the type is the limit (with a minus sign
    for the lower one), so the Clip makes infinities finite.
    """
    if node.op == "Relu":
        return Interval(low=0.0)
    if limit is not None:
        number = _limit(limit.require_number("a limit"))
        return Interval(high=number) if node.op == "Min" else Interval(low=number)
    low, high = clip_bounds(node, largest_of(node.inputs[0]))
    return Interval(_limit(low), _limit(high))


def largest_of(value: Edge | None) -> float:
    """The largest finite number of a value's element type; infinity for integer types. Refuses an
    unknown type.
    """
    dtype = require_known(None if value is None else value.dtype, "the element type")
    return math.inf if dtype.kind in "iu" else float(float_info(dtype).max)


def _limit(number: float | None) -> float:
    if number is None:
        refuse("a limit is not constant")
    if number != number:
        refuse("a limit is NaN")
    return number
