"""The search for the rewrite at fault."""

from __future__ import annotations

import pytest

from fusionc.blame import first_bad


@pytest.mark.parametrize("guilty", [1, 2, 7, 13])
def test_the_first_bad_one_is_found_in_few_steps(guilty: int) -> None:
    asked = []

    def is_good(count: int) -> bool:
        asked.append(count)
        return count < guilty

    assert first_bad(13, is_good) == guilty
    assert len(asked) <= 4
