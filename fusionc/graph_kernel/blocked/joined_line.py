"""Joins two linear functions that are applied one after the other. Each has a factor and an
addend.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)
_FAR = 1e6  # how many times a · x may be larger or smaller than both x and the result


def joined_line(first: Sequence[object], second: Sequence[object]) -> tuple[float, float] | None:
    """(a · x + b) · c + d, written with one factor and one addend. `None` if a, b, c or d is not a
    single number, or if the joined function could differ by more than rounding.
    """
    numbers = [number for number in (*first, *second) if isinstance(number, int | float)]
    if len(numbers) < 4:
        return None
    a, b, c, d = numbers
    factor = a * c
    addend = b * c + d
    is_exact = b == 0 or c == 1
    if not (is_exact and _is_normal(factor) and _is_normal(addend)):
        return None
    # Adding b may be meant to cut off digits of x. Do not join if adding d cancels b again.
    is_lost = (factor == 0 and 0 not in (a, c)) or abs(addend) < max(abs(b * c), abs(d)) / 4
    return None if is_lost or _leads_far_away(a, factor) else (factor, addend)


def _is_normal(number: float) -> bool:
    """Whether a number is zero or a normal number of float32."""
    return number == 0 or _SMALLEST <= abs(number) <= _LARGEST


def _leads_far_away(a: float, factor: float) -> bool:
    """Whether a · x may overflow or underflow although factor · x does not."""
    return a != 0 and not min(1, abs(factor)) / _FAR <= abs(a) <= max(1, abs(factor)) * _FAR
