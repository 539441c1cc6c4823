"""Shapes that are not written alike, and yet equal wherever what has them can be combined."""

from __future__ import annotations

from fusionc.model.graph import Shape
from fusionc.shapes.expressions import Element, limited


def all_meet(a: Shape, b: Shape) -> bool:
    """Whether two shapes of what is added are equal, wherever the model runs."""
    if len(a) != len(b):
        return False
    return all(x is not None and y is not None and meets(x, y) for x, y in zip(a, b, strict=True))


def meets(a: Element, b: Element) -> bool:
    """Whether two dimensions are equal wherever both broadcast: a limit above 1 of the other one
    counts for nothing.
    """
    limits = (limited(a), limited(b))
    return a == b or any(
        pair is not None and pair[0] > 1 and pair[1] == c
        for pair, c in zip(limits, (b, a), strict=True)
    )
