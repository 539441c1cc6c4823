"""Which of many optimizers have to be off, found with few questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2

import pytest

from fusionc.runtime.optimizers import OPTIMIZERS
from fusionc.verify.optimizer_search import optimizers_at_fault

FIRST = OPTIMIZERS[0]
MIDDLE = OPTIMIZERS[len(OPTIMIZERS) // 2]
LAST = OPTIMIZERS[-1]
CASES: list[tuple[Callable[[set[str]], bool], set[str]]] = [
    (lambda off: FIRST in off, {FIRST}),
    (lambda off: MIDDLE in off, {MIDDLE}),
    (lambda off: LAST in off, {LAST}),
    (lambda off: {FIRST, LAST} <= off, {FIRST, LAST}),
    (lambda off: {FIRST, MIDDLE, LAST} <= off, {FIRST, MIDDLE, LAST}),
    (lambda off: FIRST in off or LAST in off, {FIRST}),  # they are wrong together
    (lambda off: False, set()),
    (lambda off: set(OPTIMIZERS[:20]) <= off, set()),
]


@pytest.mark.parametrize(("is_right", "expected"), CASES)
def test_the_fewest_that_have_to_be_off(
    is_right: Callable[[set[str]], bool], expected: set[str]
) -> None:
    asked: list[Sequence[str]] = []

    def ask(off: Sequence[str]) -> bool:
        asked.append(off)
        return is_right(set(off))

    assert set(optimizers_at_fault(ask)) == expected
    assert len(asked) <= 1 + max(1, len(expected) or 6) * (ceil(log2(len(OPTIMIZERS))) + 2)


def test_what_is_known_stays_off() -> None:
    assert set(optimizers_at_fault(lambda off: {FIRST, LAST} <= set(off), [LAST])) == {FIRST, LAST}


def test_no_name_is_there_twice() -> None:
    assert len(set(OPTIMIZERS)) == len(OPTIMIZERS)
