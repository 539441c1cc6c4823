"""Comparisons of shapes. A comparison is true only if it holds for all sizes that the model may run
with.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusionc.shapes.expressions import is_invented


def same_shape(a: Sequence[int | str | None] | None, b: Sequence[int | str | None] | None) -> bool:
    """Whether two shapes are known to be equal: each dimension is the same number or symbol."""
    return a is not None and b is not None and None not in a and tuple(a) == tuple(b)


def same_after_reshape(
    a: Sequence[int | str | None] | None, b: Sequence[int | str | None] | None
) -> bool:
    """Whether two shapes with the same number of elements are known to be equal whenever they have
    any elements. A single unknown dimension follows from the other dimensions.

    False if known dimensions are not the same, such as 7 and "length": these may differ if another
    dimension is 0.
    """
    if a is None or b is None or len(a) != len(b):
        return False
    differing = [pair for pair in zip(a, b, strict=True) if None in pair or pair[0] != pair[1]]
    if len(differing) > 1 or 0 in (*a, *b):
        return False
    return all(any(map(is_invented, pair)) for pair in differing)


def broadcasts_into(
    small: Sequence[int | str | None] | None, large: Sequence[int | str | None] | None
) -> bool:
    """Whether broadcasting `small` and `large` is known to give the shape `large`."""
    if small is None or large is None or len(small) > len(large):
        return small is not None and len(small) == 0
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a == 1 or (a is not None and a == b) for a, b in pairs)
