"""Stack the outputs of many runs of a model into one value. They are then compared at once, with
one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Any

import numpy as np

Outputs = Sequence[Any]
# if runs are cheap, at least this many elements of an output are compared: a few prove little
_ENOUGH = 4096
_MOST_MORE = 512  # at most this many inputs are drawn to reach _ENOUGH
A_FEW = 8  # inputs that are enough to see whether the outputs depend on the contents of inputs
_MOST_DRAWN = 1 << 22  # elements of all drawn inputs and their outputs
_MOST_READ = 1 << 31  # bytes of constants that all these runs read
_A_THOUSANDTH = 1 / 1000
_LAST_PLACES = 4  # units in the last place by which an element of half precision may differ


def more_draws(fewest: Sequence[int], drawn: int, read: int) -> int:
    """How many more inputs must be drawn to compare enough elements of each output. They are drawn
    like the sample with the most elements.

    `fewest` are the numbers of elements of the smallest output of each sample, `drawn` is the
    number of elements of the inputs and outputs of one sample, and `read` the number of bytes of
    constants that one run reads.
    """
    missing = _ENOUGH - sum(fewest)
    if missing <= 0 or not max(fewest):
        return 0
    return min(
        ceil(missing / max(fewest)),
        _MOST_MORE,
        _MOST_DRAWN // max(drawn, 1),
        _MOST_READ // max(read, 1),
    )


def stacked(pairs: Iterable[tuple[Outputs, Outputs]]) -> Iterator[tuple[Outputs, Outputs]]:
    """The outputs of two models in several runs. Runs of equal shapes and types become one pair."""
    groups = dict[Any, list[tuple[Outputs, Outputs]]]()
    for at, (ours, theirs) in enumerate(pairs):
        values = (*ours, *theirs)
        is_plain = all(isinstance(value, np.ndarray) for value in values)
        kind = tuple((value.shape, value.dtype) for value in values) if is_plain else at
        groups.setdefault(kind, []).append((ours, theirs))
    for group in groups.values():
        yield _as_one([ours for ours, _ in group]), _as_one([theirs for _, theirs in group])


def elements(value: Any) -> int:
    """The number of elements of a value. Those of a sequence are counted together."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(elements, value)) if isinstance(value, list) else int(np.size(value))


def same_outputs(one: Outputs, other: Outputs) -> bool:
    """Whether two runs give the same arrays, bit by bit."""
    pairs = list(zip(one, other, strict=True))
    if not all(
        isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
        for pair in pairs
        for value in pair
    ):
        return False
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def share_off(one: Any, other: Any) -> float:
    """The share of elements in which two arrays differ by more than a thousandth of the largest
    value, or in half precision by more than a few units in its last place.
    """
    if (
        not all(isinstance(value, np.ndarray) for value in (one, other))
        or one.shape != other.shape
        or not one.size
    ):
        return 1.0
    if one.dtype.kind not in "fc":
        return float((one != other).mean())
    with np.errstate(all="ignore"):
        off = (
            np.abs(one.astype(np.complex128) - other)
            if one.dtype.kind == "c"
            else np.abs(one - other)
        )
        largest = np.abs(one[np.isfinite(one)]).max(initial=0).astype(np.float64)
        accepted = largest * max(_A_THOUSANDTH, _LAST_PLACES * float(np.finfo(one.dtype).eps))
        return float(
            (~(off <= accepted) & ~((one == other) | (np.isnan(one) & np.isnan(other)))).mean()
        )


def fewest_elements(outputs: Outputs) -> int:
    """The number of elements of the smallest output."""
    return min(map(elements, outputs), default=0)


def _as_one(several: Sequence[Outputs]) -> Outputs:
    if len(several) == 1:
        return several[0]
    return [np.stack(values) for values in zip(*several, strict=True)]
