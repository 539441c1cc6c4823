"""A few of the runs of benchmarks/hostile_fuzz.py; run that for thousands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import hostile_fuzz

RUNS = 48
CHUNK = 12


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_damaged_inputs_end_as_they_should(first: int) -> None:
    for number in range(first, first + CHUNK):
        _, complaint = hostile_fuzz.one(0, number)
        assert not complaint, (
            f"python benchmarks/hostile_fuzz.py --seed 0 --only {number}\n{complaint}"
        )
