"""Factors and numbers to add, one after the other, as one of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)
_FAR = 1e6  # how much larger, or smaller, a · x may be than both x and the result


def joined_line(first: Sequence[object], second: Sequence[object]) -> tuple[float, float] | None:
    """(a · x + b) · c + d as one factor and one number to add; None where they are not single
    numbers, or where that computes something else beyond rounding.

    Both have to be normal numbers of float32, and the second addend must not take the first away,
    which may be there to cut off digits of x. Nor may the first factor lead far away and the second
    one back: a · x might overflow, or lose digits below the smallest number, where the one factor
    does not.
    """
    numbers = [number for number in (*first, *second) if isinstance(number, int | float)]
    if len(numbers) < 4:
        return None
    a, b, c, d = numbers
    factor = a * c
    addend = b * c + d
    is_normal = all(
        _SMALLEST <= abs(number) <= _LARGEST or number == 0 for number in (factor, addend)
    )
    is_lost = (factor == 0 and 0 not in (a, c)) or abs(addend) < max(abs(b * c), abs(d)) / 4
    is_far = a != 0 and not min(1, abs(factor)) / _FAR <= abs(a) <= max(1, abs(factor)) * _FAR
    return (
        (factor, addend)
        if (b == 0 or c == 1) and is_normal and not is_lost and not is_far
        else None
    )
