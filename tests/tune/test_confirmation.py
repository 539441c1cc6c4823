from __future__ import annotations

import math
import random
import statistics
import xml.etree.ElementTree as ElementTree

import pytest

from fusionc.bench.intervals import interval_of
from fusionc.tune.configuration import TunedChange
from fusionc.tune.confirmation import confirmation_of, least_rounds
from fusionc.tune.decisions import Worth, noise_of
from fusionc.tune.worth_plot import worth_plot


def rounds(
    noise: float = 0.005, count: int = 8, **seconds: float
) -> list[dict[str, list[list[float]]]]:
    """Rounds in which each form takes so long."""
    draw = random.Random(0)
    found = []
    for _ in range(count):
        shifts = {form: draw.gauss(1, noise) for form in seconds}
        found.append({form: [[shifts[form] * value]] * 3 for form, value in seconds.items()})
    return found


def test_the_tuned_model_has_to_be_faster_than_both_others() -> None:
    last = confirmation_of(rounds(tuned=0.8, default=0.9, original=1.0), 0.95)
    assert (
        last.delivered == "tuned" and last.ratio is not None and abs(last.ratio.ratio - 0.8) < 0.01
    )
    assert (
        confirmation_of(rounds(tuned=0.9, default=0.9, original=1.0), 0.95).delivered == "default"
    )
    assert (
        confirmation_of(rounds(tuned=0.9, default=1.1, original=0.9), 0.95).delivered == "original"
    )


def test_what_is_not_confirmed_is_the_original() -> None:
    last = confirmation_of(rounds(noise=0.3, tuned=0.97, default=0.98, original=1.0), 0.95)
    assert last.delivered == "original" and last.ratio is None
    assert confirmation_of(rounds(default=1.2, original=1.0), 0.95).delivered == "original"
    assert (
        confirmation_of(rounds(tuned=0.5, default=0.6, original=1.0, count=1), 0.95).delivered
        == "original"
    )


@pytest.mark.parametrize("noise, count", [(0.0, 6), (0.02, 6), (0.05, 10), (0.3, 14)])
def test_a_busy_machine_needs_more_rounds(noise: float, count: int) -> None:
    assert least_rounds(noise, 0.95) == count


def test_bounds_of_as_many_rounds_as_are_needed_are_as_close_as_they_should_be() -> None:
    """Seldom are those of the last run much further apart than its noise before let expect."""
    for noise in (0.02, 0.03, 0.04):
        draw = random.Random(1)
        apart = []
        for _ in range(200):
            logarithms = [draw.gauss(0, noise) for _ in range(least_rounds(noise, 0.95))]
            bounds = interval_of(logarithms, 1 - 0.05 / 3)
            apart.append(bounds.high / bounds.low)
        assert statistics.median(apart) < 1.1 and max(apart) < 1.25


def test_noise_is_that_of_all_tests_together() -> None:
    change = TunedChange("SlowPass off", "passes")
    worths = [
        Worth(change, tested=[0.1, 0.3]),
        Worth(change, tested=[-0.2, -0.4, -0.6]),
        Worth(change, chosen=[9, 0]),
    ]
    assert noise_of(worths) == pytest.approx(math.sqrt((0.02 + 0.08) / 3))
    assert noise_of([Worth(change, tested=[0.3])]) == noise_of([]) == 0


def test_without_anything_found_the_defaults_may_be_delivered() -> None:
    last = confirmation_of(rounds(default=0.9, original=1.0), 0.95)
    assert last.delivered == "default" and last.against_default is None
    assert last.seconds.keys() == {"default", "original"}


def test_the_plot_is_valid_and_says_what_was_measured() -> None:
    last = confirmation_of(rounds(tuned=0.8, default=0.9, original=1.0), 0.95)
    worths = [
        Worth(TunedChange("SlowPass off", "passes"), "pays", tested=[-0.1, -0.11, -0.12]),
        Worth(TunedChange("one round <only>", "passes"), "undecided", chosen=[0.1]),
        Worth(TunedChange("never", "passes")),
    ]
    root = ElementTree.fromstring(worth_plot("a & b.onnx", worths, last, 0.95))
    texts = [element.text for element in root.iter() if element.text]
    assert {"SlowPass off", "one round <only>", "last run: tuned / default"} <= set(
        texts
    ) and "never" not in texts
    assert "a & b.onnx: ratios of run times, lower is faster" in texts
    assert (
        "The bounds hold with a confidence of 95 %: "
        "all together in the last run, otherwise each one alone" in texts
    )


def test_large_gains_are_where_they_are_in_the_plot() -> None:
    last = confirmation_of(rounds(tuned=0.3, default=0.45, original=1.0), 0.95)
    root = ElementTree.fromstring(worth_plot("m.onnx", [], last, 0.95))
    tuned, against_default, default = (
        float(mark.attrib["transform"].removeprefix("translate(").split()[0])
        for mark in root.iter()
        if mark.tag.endswith("path")
    )
    assert tuned < default < against_default
