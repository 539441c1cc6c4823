"""A few of the chains that benchmarks/grid_chains.py compares; run that for thousands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import grid_chains

RUNS = 72
CHUNK = 24


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_chains_over_grids_keep_their_integers(first: int) -> None:
    rewrites = 0
    for number in range(first, first + CHUNK):
        model = grid_chains.chain(0, number)
        result, counts = grid_chains.optimized(model)
        rewrites += sum(counts.values())
        assert grid_chains.difference(model, result) == "", (
            f"python benchmarks/grid_chains.py --only {number}"
        )
    assert rewrites > CHUNK


def test_the_same_number_is_the_same_chain() -> None:
    assert grid_chains.chain(3, 5) == grid_chains.chain(3, 5) != grid_chains.chain(3, 6)
