"""What is known to be equal of two shapes, whatever sizes the model runs with."""

from __future__ import annotations

from collections.abc import Sequence

from fusionc.shapes.expressions import is_invented


def same_shape(a: Sequence[int | str | None] | None, b: Sequence[int | str | None] | None) -> bool:
    """Whether two shapes are known to be equal: every dimension the same number or the same
    symbol.
    """
    return a is not None and b is not None and None not in a and tuple(a) == tuple(b)


def same_after_reshape(
    a: Sequence[int | str | None] | None, b: Sequence[int | str | None] | None
) -> bool:
    """Whether two shapes with equally many elements are known to be equal if they have elements at
    all: one unknown dimension follows from the others.

    Known dimensions that differ, such as 7 and "length", may do so if another dimension is 0.
    """
    if a is None or b is None or len(a) != len(b):
        return False
    open_ = [pair for pair in zip(a, b, strict=True) if None in pair or pair[0] != pair[1]]
    if len(open_) > 1 or 0 in (*a, *b):
        return False
    return all(any(map(is_invented, pair)) for pair in open_)


def broadcasts_into(
    small: Sequence[int | str | None] | None, large: Sequence[int | str | None] | None
) -> bool:
    """Whether broadcasting the shape `small` is known to leave the shape `large` as it is."""
    if small is None or large is None or len(small) > len(large):
        return small is not None and len(small) == 0
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a == 1 or (a is not None and a == b) for a, b in pairs)
