"""Shapes that are written with different symbols, but are equal in every run in which they
broadcast.
"""

from __future__ import annotations

from fusionc.model.graph import Shape
from fusionc.shapes.expressions import Element, limited


def all_meet(a: Shape, b: Shape) -> bool:
    """Whether the shapes of two addends are equal in every run that does not fail."""
    if len(a) != len(b):
        return False
    return all(x is not None and y is not None and meets(x, y) for x, y in zip(a, b, strict=True))


def meets(a: Element, b: Element) -> bool:
    """Whether two dimensions are equal in every run in which they broadcast.

    This includes dimensions n and min(limit, n) with a limit above 1. If they differ, neither of
    them is 1, so they do not broadcast.
    """
    limits = (limited(a), limited(b))
    return a == b or any(
        pair is not None and pair[0] > 1 and pair[1] == c
        for pair, c in zip(limits, (b, a), strict=True)
    )
