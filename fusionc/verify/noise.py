"""How far an output of a model moves by rounding, and whether this explains how far another model's
is off.
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
# … and up to which it decides nothing, if the noise is amplified rounding: more values round than
# weights. In a long sum, or after many layers, errors are several times as much.
IN_PROPORTION = 16
# Units in the last place of the largest value, above which noise is amplified rounding: about a
# third of the tolerance of float32 outputs. In half precision noise never counts as amplified: the
# tolerance is smaller than that.
_AMPLIFIED = 250
_FEW = 4  # times the noise of a part, as draws show less of it
ONE_IN = 50  # elements may be off by more than rounding explains in their place, and one more
_MOST_OF_IT = 0.5  # a slice is judged by itself if more than this share of it is off


class Noise:
    """The largest moves of one output that draws have shown: of each element, and of all."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._moves = np.zeros(value.shape) if _is_real(value) else None
        self.largest = 0.0

    def add(self, value: Any, moved: Any) -> None:
        """Note how far one draw has moved the output, both without elements that decide nothing."""
        self.largest = max(self.largest, largest_difference(value, moved))
        if self._moves is not None and _is_real(moved) and moved.shape == self._moves.shape:
            self._moves = np.maximum(self._moves, _difference(value, moved))

    @property
    def is_amplified(self) -> bool:
        """Whether it is that of a model that amplifies rounding."""
        if not _is_real(self._value):
            return False
        last_place = largest_magnitude(self._value) * float(float_info(self._value.dtype).eps)
        return self.largest > _AMPLIFIED * last_place

    def explains(self, off: NDArray[np.float64], times: float, parts: Sequence[Block] = ()) -> bool:
        """Whether noise explains the elements that are off, if the largest error is at most so many
        times the noise: no more elements may be far off than have much noise, here and there. If
        some amplify rounding, all of one channel, say, this does not excuse others.

        Single elements prove nothing: numbers that round to another step, or come out of a Relu, do
        so in few draws. More than a few of them that are off although they do not move are a
        region. If most elements move, those that hardly move do so by chance. Each of `parts` has
        noise of its own.
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
    """What |a - b| is at most for nine of ten floats of two arrays; 0 if these are not floats, or
    of different shapes.
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
    """Whether no error is more than so many times the noise of its output."""
    return all(error <= times * noise[name] for name, error in errors.items())


def elements_off(ours: Any, theirs: Any, yardstick: Yardstick) -> NDArray[np.float64] | None:
    """How far each element is off that exceeds the tolerance, 0 for others; None of a value without
    elements.
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
