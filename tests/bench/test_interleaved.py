"""The ratios that the tools of benchmarks/ report, of runs on a machine that others use, too."""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import interleaved


def test_what_slows_whole_rounds_does_not_change_ratios() -> None:
    random.seed(0)
    rounds = [random.choice((1.0, 1.6)) for _ in range(31)]
    times = {"original": [0.010 * one for one in rounds], "result": [0.009 * one for one in rounds]}
    times["result"][3] *= 50  # of one run alone
    found = interleaved.usual_times(times)
    assert found["result"] / found["original"] == pytest.approx(0.9, rel=1e-9)
    assert min(times["original"]) <= found["original"] <= max(times["original"])


def test_of_an_even_machine_they_are_the_medians() -> None:
    times = {"original": [0.010] * 5, "result": [0.008] * 5, "other": [0.030] * 5}
    assert interleaved.usual_times(times) == pytest.approx(
        {kind: statistics.median(t) for kind, t in times.items()}
    )
