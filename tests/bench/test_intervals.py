from __future__ import annotations

import json
import math
import random

import pytest

from fusionc.bench.intervals import interval_of, log_ratio, percentile, student_quantile


@pytest.mark.parametrize(
    "probability, freedom, expected",
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.995, 5, 4.032),
        (0.975, 10, 2.228),
        (0.995, 29, 2.756),
    ],
)
def test_quantiles_are_those_of_the_tables(
    probability: float, freedom: int, expected: float
) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(expected, abs=1e-3)


def test_an_interval_has_the_true_ratio_as_often_as_it_says() -> None:
    noise = random.Random(0)
    held = 0
    for _ in range(2000):
        found = interval_of([math.log(0.9) + noise.gauss(0, 0.05) for _ in range(5)], 0.9)
        held += found.low <= 0.9 <= found.high
    assert 1750 <= held <= 1850


def test_one_process_says_nothing() -> None:
    found = interval_of([math.log(0.5)], 0.95)
    assert found.ratio == pytest.approx(0.5) and not found.is_faster and not found.is_slower
    assert str(found) == "0.500 (bounds unknown in 1 round)" and found.as_json()["high"] is None


def test_what_is_beyond_doubt() -> None:
    assert interval_of([math.log(ratio) for ratio in (0.90, 0.91, 0.92)], 0.95).is_faster
    assert interval_of([math.log(ratio) for ratio in (1.10, 1.11, 1.12)], 0.95).is_slower


def test_bounds_too_large_to_say_are_none() -> None:
    found = interval_of([0.0, 0.3], 0.99999)
    assert found.low == 0.0 and found.high == math.inf and not found.is_slower


def test_slices_of_models_that_had_their_turns_alone_may_be_of_other_numbers() -> None:
    assert math.exp(log_ratio([[2.0]] * 5, [[1.0], [4.0], [4.0]])) == pytest.approx(0.5)


def test_slices_in_turn_cancel_what_slows_all_of_them() -> None:
    load = [1.0, 1.0, 3.0, 3.0, 1.0]
    first, second = ([[factor * at, factor * at * 1.01] for at in load] for factor in (0.8, 1.0))
    first[0] = [50.0]  # something else ran meanwhile
    assert math.exp(log_ratio(first, second)) == pytest.approx(0.8)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, part) for part in (0.5, 0.9, 0.99, 1.0)] == [50.0, 90.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


def test_a_bound_that_no_number_can_say_is_null() -> None:
    found = interval_of([-300.0, 300.0], 0.9999).as_json()
    assert found["high"] is None and json.dumps(found, allow_nan=False)
