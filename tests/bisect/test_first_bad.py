"""Halving."""

from __future__ import annotations

import pytest

from fusionc.bisect.first_bad import first_bad


@pytest.mark.parametrize("guilty", [1, 2, 7, 13])
def test_the_first_bad_one_is_found_in_few_steps(guilty: int) -> None:
    asked = []

    def is_good(count: int) -> bool:
        asked.append(count)
        return count < guilty

    assert list(first_bad(13, is_good)) == [guilty]
    assert len(asked) <= 4


def test_a_missing_answer_costs_one_more() -> None:
    asked = []

    def is_good(count: int) -> bool | None:
        asked.append(count)
        return None if count == 8 else count < 5

    assert list(first_bad(16, is_good)) == [5]
    assert len(asked) <= 5


def test_where_nobody_can_tell_all_that_is_left_is_suspected() -> None:
    def is_good(count: int) -> bool | None:
        return None if 3 <= count <= 6 else count < 3

    assert list(first_bad(16, is_good)) == [3, 4, 5, 6, 7]
