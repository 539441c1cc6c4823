"""Noise: how much rounding changes an output of a model, and whether this explains the error of
another model's output.
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

ABOUT = 4  # an error of up to this many times the noise counts as similar
# If the noise is amplified rounding, an error of up to this many times the noise proves nothing.
# The noise is measured by moving only weights and inputs, but in a run all values are rounded: in a
# long sum, or after many layers, errors are several times as large as the noise.
IN_PROPORTION = 16
# Noise of more than this many units in the last place of the largest value is amplified rounding;
# it is about a third of the tolerance of float32 outputs. In half precision the tolerance is
# smaller than that, so noise never counts as amplified.
_AMPLIFIED = 250
_FEW = 4  # factor for the noise of a part, because the draws show less noise in few elements
ONE_IN = 50  # one in this many elements, plus one, may be off by more than rounding explains
_MOST_OF_IT = 0.5  # a slice is judged separately if more than this share of it has errors


class Noise:
    """The largest changes of one output in all draws: of each element, and of the output as a
    whole.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._moves = np.zeros(value.shape) if _is_real(value) else None
        self.largest = 0.0

    def add(self, value: Any, moved: Any) -> None:
        """Note how much one draw has changed the output. The caller has removed elements that prove
        nothing from both values.
        """
        self.largest = max(self.largest, largest_difference(value, moved))
        if self._moves is not None and _is_real(moved) and moved.shape == self._moves.shape:
            self._moves = np.maximum(self._moves, _difference(value, moved))

    def is_amplified(self, reach: NDArray[np.float64] | None = None) -> bool:
        """Whether the noise is so large that the model must amplify rounding. Elements that another
        order of a reduction moves as far do not count; `reach` says how far it moves each element.
        """
        if not _is_real(self._value):
            return False
        farthest = 0.0 if reach is None else reach.max(where=np.isfinite(reach), initial=0.0)
        last_place = largest_magnitude(self._value) * float(float_info(self._value.dtype).eps)
        return max(self.largest, float(farthest)) > _AMPLIFIED * last_place

    def explains(self, off: NDArray[np.float64], times: float, parts: Sequence[Block] = ()) -> bool:
        """Whether noise explains the elements with errors `off`. Two conditions hold then. The
        largest error is at most `times` the noise. And there are no more elements with large errors
        than elements with much noise: if only some elements amplify rounding, for example those of
        one channel, this does not excuse others.

        Single elements prove nothing: a number that rounds to another step, or that a Relu lets
        pass, shows noise in only a few draws. But if more than a few elements have errors and no
        noise, they are a wrong region. If most elements have noise, the others lack it by chance.
        Each of `parts` has its own noise.
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
    """The largest |a - b| of two arrays when the largest tenth of the differences is left out. 0 if
    the arrays do not have floats, or if their shapes differ.
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
    """Whether no error is more than `times` the noise of its output."""
    return all(error <= times * noise[name] for name, error in errors.items())


def elements_off(ours: Any, theirs: Any, yardstick: Yardstick) -> NDArray[np.float64] | None:
    """The error of each element that exceeds the tolerance, and 0 for the others. None if the value
    has no elements.
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
