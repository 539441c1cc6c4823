"""How far a result of lower precision is from the reference."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from fusionc.verify.precision_loss import PrecisionLoss, PrecisionLosses, loss_of

RIGHT = np.array([[3.0, -4.0, 0.0, 1.0]], np.float32)


def test_the_share_of_the_largest_value() -> None:
    made = RIGHT.copy()
    made[0, 2] = 0.2
    loss = loss_of("y", RIGHT, made)
    assert loss.distance == pytest.approx(0.05)
    assert loss.cosine == pytest.approx(26 / np.sqrt(26 * 26.04))
    assert loss.is_within(0.051) and not loss.is_within(0.049)
    assert loss.is_within(None)


def test_the_cosine_decides_without_a_bound() -> None:
    assert not loss_of("y", RIGHT, RIGHT[:, ::-1].copy()).is_within(None)
    assert loss_of("y", RIGHT, RIGHT * 2).is_within(None)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_finite_in_one_alone(number: float) -> None:
    made = RIGHT.copy()
    made[0, 0] = number
    for pair in ((RIGHT, made), (made, RIGHT)):
        assert loss_of("y", *pair) == PrecisionLoss("y", inf, -1.0)
    assert loss_of("y", made, made) == PrecisionLoss("y")


def test_zeros_and_large_numbers() -> None:
    zeros = np.zeros(3, np.float32)
    assert loss_of("y", zeros, zeros) == PrecisionLoss("y")
    assert loss_of("y", zeros, zeros + 1).distance == inf
    large = np.full(3, 3e38, np.float32)
    assert loss_of("y", large, large * np.float32(0.99)).cosine == pytest.approx(1.0)


def test_other_values_do_not_count() -> None:
    assert loss_of("y", np.array(["a"]), np.array(["b"])) == PrecisionLoss("y")
    assert loss_of("y", [RIGHT], [RIGHT]) == PrecisionLoss("y")


def test_the_worst_output_decides() -> None:
    losses = (PrecisionLoss("a", 0.01, 0.9999), PrecisionLoss("b", 0.03, 0.9995))
    assert not PrecisionLosses(1, losses, 0.02).is_within
    assert PrecisionLosses(1, losses, None).is_within
    assert PrecisionLosses(1, losses, 0.02).worst == losses[1]
    assert not PrecisionLosses(0, (), None, "it does not run").is_within
    assert losses[0].worst(losses[1]) == PrecisionLoss("a", 0.03, 0.9995)
