"""How far an output of a model moves of itself, and whether that explains by how much another
model's is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.model.tensors import float_info
from fusionc.verify.compare import (
    SLICE,
    TOLERANCES,
    Yardstick,
    as_float64,
    largest_difference,
    largest_magnitude,
    unequal,
)
from fusionc.verify.joints import Block

ABOUT = 4  # times the noise, up to which an error is of its size …
# … and up to which it says nothing, where the noise is amplified rounding: what rounds is more than
# weights. Of a long sum, or behind many layers, it is several times as much.
IN_PROPORTION = 16
# Units in the last place of the largest value, above which noise is amplified rounding: about a
# third of what float32 outputs may be off. Those of half precision never are: they may be off by as
# much as rounding is
# amplified in one.
_AMPLIFIED = 250
_FEW = 4  # times the noise of a part, of which draws show less than of all
ONE_IN = 50  # elements may be off by more than rounding explains in their place, and one more
_MOST_OF_IT = 0.5  # the share of a slice that is off where it is judged by itself


class Noise:
    """The largest moves of one output that draws have shown: of each element, and of all of it."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._moves = np.zeros(value.shape) if _is_real(value) else None
        self.largest = 0.0

    def add(self, value: Any, moved: Any) -> None:
        """Note how far one draw has moved the output, both without the elements that decide
        nothing.
        """
        self.largest = max(self.largest, largest_difference(value, moved))
        if self._moves is not None and _is_real(moved) and moved.shape == self._moves.shape:
            self._moves = np.maximum(self._moves, _difference(value, moved))

    @property
    def is_amplified(self) -> bool:
        """Is it that of a model which amplifies rounding?"""
        if not _is_real(self._value):
            return False
        last_place = largest_magnitude(self._value) * float(float_info(self._value.dtype).eps)
        return self.largest > _AMPLIFIED * last_place

    def explains(self, off: NDArray[np.float64], times: float, parts: Sequence[Block] = ()) -> bool:
        """Of an output that is off by no more than so many times its noise: are no more elements
        off by much than have much noise, here and there? That some amplify, all of one channel,
        say, is no excuse for others.

        Single elements tell nothing: what rounds to another step, or comes out of a Relu, does so
        in few draws. More than a few of them that are off where nothing moves are a region. If most
        elements move, those that hardly move do so by chance. Of `parts` each has noise of its own.
        """
        if self._moves is None:
            return True
        limit = times * _FEW
        if any(
            off[part].max(initial=0.0) > times * self._moves[part].max(initial=0.0)
            for part in parts
        ):
            return False
        usual = float(np.median(self._moves)) / _FEW
        if (np.sort(off, None) > limit * np.maximum(np.sort(self._moves, None), usual)).any():
            return False
        if (off > limit * self._moves).sum() > 1 + off.size // ONE_IN:
            return False
        for axis in range(off.ndim):
            others = tuple(other for other in range(off.ndim) if other != axis)
            is_told = (
                (off > 0).mean(others) > _MOST_OF_IT
                if off.size >= SLICE * off.shape[axis]
                else np.False_
            )
            if (is_told & (off.max(others) > limit * self._moves.max(others))).any():
                return False
        return True


def usual_difference(reference: Any, other: Any) -> float:
    """What |a - b| is at most for nine of ten floats of two arrays; 0 where these are none, or of
    different shapes.
    """
    if (
        not isinstance(reference, np.ndarray)
        or not isinstance(other, np.ndarray)
        or reference.shape != other.shape
    ):
        return 0.0
    if reference.dtype.name not in TOLERANCES or not reference.size:
        return 0.0
    off = np.abs(as_float64(reference) - as_float64(other))
    return float(np.quantile(np.where(np.isfinite(off), off, 0.0), 0.9))


def is_within(errors: Mapping[str, float], noise: Mapping[str, float], times: float) -> bool:
    """Is no error more than so many times the noise of its output?"""
    return all(error <= times * noise[name] for name, error in errors.items())


def elements_off(ours: Any, theirs: Any, yardstick: Yardstick) -> NDArray[np.float64] | None:
    """By how much each element is off that is off by more than the tolerance, 0 for others; None of
    what has none.
    """
    if not (_is_real(ours) and _is_real(theirs) and ours.shape == theirs.shape and ours.size):
        return None
    return np.where(unequal(ours, theirs, yardstick), _difference(ours, theirs), 0.0)


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in TOLERANCES


def _difference(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        off = np.abs(as_float64(one) - as_float64(other))
    return np.where(np.isfinite(off), off, 0.0)
