"""Outputs of many runs of a model beside each other, as one value: they are compared at once, with
one scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Outputs = Sequence[Any]


def stacked(pairs: Iterable[tuple[Outputs, Outputs]]) -> Iterator[tuple[Outputs, Outputs]]:
    """What two models give in each of several runs: those of one shape and type are one pair."""
    groups = dict[Any, list[tuple[Outputs, Outputs]]]()
    for at, (ours, theirs) in enumerate(pairs):
        values = (*ours, *theirs)
        is_plain = all(isinstance(value, np.ndarray) for value in values)
        kind = tuple((value.shape, value.dtype) for value in values) if is_plain else at
        groups.setdefault(kind, []).append((ours, theirs))
    for group in groups.values():
        yield _as_one([ours for ours, _ in group]), _as_one([theirs for _, theirs in group])


def elements(value: Any) -> int:
    """How many elements a value has; a sequence, all of what it holds."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(elements, value)) if isinstance(value, list) else int(np.size(value))


def fewest_elements(outputs: Outputs) -> int:
    """Those of the smallest output."""
    return min(map(elements, outputs), default=0)


def _as_one(several: Sequence[Outputs]) -> Outputs:
    if len(several) == 1:
        return several[0]
    return [np.stack(values) for values in zip(*several, strict=True)]
