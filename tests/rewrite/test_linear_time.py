"""Time grows with the model, not with its square. The full figures are those of
benchmarks/scaling.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from scaling import SHAPES, seconds_per_node

SQUARE = 20  # how much more a node would cost in the larger model if time grew with the square


@pytest.mark.timing
@pytest.mark.parametrize("make", SHAPES)
def test_twenty_times_the_nodes_cost_twenty_times_the_time(make: type) -> None:
    ratio = seconds_per_node(make, 12_000, 1) / seconds_per_node(make, 600, 3)
    assert ratio < SQUARE / 5
