"""What noise explains, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse
from numpy.typing import NDArray
from onnx import numpy_helper

from fusionc.verify.compare import USUAL, Yardstick
from fusionc.verify.noise import (
    ABOUT,
    IN_PROPORTION,
    Noise,
    elements_off,
    is_within,
    usual_difference,
)
from fusionc.verify.verification import verify


@pytest.mark.parametrize(
    ("errors", "is_excused"),
    [
        ({}, True),
        ({"y": 4.0}, True),
        ({"y": 4.01}, False),
        ({"y": 3.9, "z": 0.4}, True),
        ({"y": 3.9, "z": 0.41}, False),
        ({"y": 4.1, "z": 0.4}, False),
    ],
)
def test_errors_of_the_size_of_the_noise(errors: dict[str, float], is_excused: bool) -> None:
    """Up to four times what the reference itself makes of a unit in the last place; every output
    counts.
    """
    assert is_within(errors, {"y": 1.0, "z": 0.1, "other": 0.0}, ABOUT) is is_excused


def noise_of(moves: NDArray[Any]) -> Noise:
    """That of zeros beside a hundred, which have moved so far."""
    value = np.zeros(moves.shape, np.float32)
    noise = Noise(value)
    noise.add(value, moves.astype(np.float32))
    return noise


@pytest.mark.parametrize(
    "dtype, move, expected",
    [
        (np.float32, 4e-3, True),
        (np.float32, 2e-3, False),
        (np.float16, 0.0625, False),
        (np.int32, 1, False),
    ],
)
def test_noise_of_many_last_places_is_amplified(dtype: type, move: float, expected: bool) -> None:
    noise = Noise(np.array([100, -3], dtype))
    noise.add(np.array([100, -3], dtype), np.array([100 + move, -3], dtype))
    assert noise.is_amplified() == expected
    assert noise.largest == (0 if dtype is np.int32 else pytest.approx(move, rel=1e-3))


def test_the_largest_move_counts_in_whatever_draw_it_is() -> None:
    values = np.zeros(3, np.float32)
    noise = Noise(values)
    for move in ([0, 2, 0], [1, 0, 0]):
        noise.add(values, np.float32(move))
    assert noise.largest == 2
    assert noise.explains(np.array([4.0, 8.0, 0.0]), 1) and not noise.explains(
        np.array([4.1, 8.0, 0.0]), 1
    )


def test_what_has_no_elements_has_a_largest_move() -> None:
    noise = Noise([np.float32([1, 2])])
    noise.add([np.float32([1, 2])], [np.float32([1, 2.5])])
    assert noise.largest == 0.5 and not noise.is_amplified() and noise.explains(np.ones(2), 1)


CHANNELS = np.zeros((4, 3, 8))
CHANNELS[:, 0] = 1.0  # amplifies


@pytest.mark.parametrize(
    "channel, rows, is_explained",
    [
        (0, slice(None), True),
        (1, slice(None), False),  # all of another channel
        (1, slice(0, 2), False),  # half of it, which is no single element
        (1, slice(0, 3), False),
    ],
)
def test_a_channel_that_amplifies_excuses_no_other_one(
    channel: int, rows: slice, is_explained: bool
) -> None:
    off = np.zeros(CHANNELS.shape)
    off[rows, channel] = 1.0
    assert noise_of(CHANNELS).explains(off, ABOUT) == is_explained


def test_as_many_elements_as_have_noise_may_be_off() -> None:
    """Wherever they are, and four times as far as the noise of so many."""
    moves = np.zeros(1000)
    off = np.zeros(1000)
    moves[:10] = 1.0
    off[500:510] = 4 * ABOUT
    assert noise_of(moves).explains(off, ABOUT)
    off[510] = 1e-3
    assert not noise_of(moves).explains(off, ABOUT)


def test_an_output_that_moves_as_a_whole_has_elements_that_hardly_move() -> None:
    """By chance; if hardly any element moves, those that do not are none of these."""
    moves = np.linspace(0.3, 1.0, 1000)
    moves[:4] = 1e-3
    off = np.full(1000, 2.0)
    assert noise_of(moves).explains(off, ABOUT)
    moves[:600] = 1e-3
    assert not noise_of(moves).explains(off, ABOUT)


def test_what_is_off_by_less_than_the_tolerance_is_not_off() -> None:
    ours = np.float32([100, 1, 0])
    theirs = np.float32([100.05, 1.005, 0.02])
    assert np.array_equal(elements_off(ours, theirs, USUAL), [0, 0, np.float32(0.02)])
    assert np.array_equal(elements_off(ours, theirs, Yardstick(least_scale=300.0)), [0, 0, 0])
    for other in (np.float32([1, 2]), [ours], np.int32([1, 2, 3])):
        assert elements_off(ours, other, USUAL) is None


def mixed(path: Path, bias: float) -> Path:
    """Of each row one number amplifies rounding, and 63 are products with a bias."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(64, 64)) / 8,
        "b": np.full(64, bias) + rng.normal(size=64),
        "k": np.array([1234.567]),
        "e": np.array([1e-3]),
        "g": np.array([0.06]),
    }
    model = parse("""agraph (float[N, 64] x) => (float[N, 64] y) {
        parts = Constant <value_ints = [1, 63]> () p = MatMul (x, w) a = Add (p, b)
        first, rest = Split <axis = 1> (a, parts) xf, xr = Split <axis = 1> (x, parts)
        up = Add (xf, k) d = Sub (up, k) q = Mul (d, d) s = Add (q, e) r = Div (g, s)
        y = Concat <axis = 1> (r, rest) }""")
    model.graph.initializer.extend(
        numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()
    )
    onnx.save(model, path)
    return path


def test_a_lost_bias_beside_what_amplifies_is_a_difference(tmp_path: Path) -> None:
    right = mixed(tmp_path / "a.onnx", 3)
    assert verify(right, right).status == "equal"
    found = verify(right, mixed(tmp_path / "b.onnx", 0))
    assert found.status == "different" and found.differences[0].run.startswith("seed 0,")


def test_steps_that_rounding_takes_elsewhere_are_no_difference(tmp_path: Path) -> None:
    """A hundredth of the numbers is rounded to the next step, another one in each draw."""
    rng = np.random.default_rng(1)
    step = 1 / 128
    value = np.round(rng.normal(size=(1, 4000)), 1).astype(np.float32)

    def stepped() -> NDArray[np.float32]:
        return np.float32(value + step * (rng.uniform(size=value.shape) < 0.01))

    noise = Noise(value)
    for _ in range(8):
        noise.add(value, stepped())
    off = elements_off(value, stepped(), USUAL)
    assert off is not None and off.any() and noise.explains(off, ABOUT)


def test_within_some_times_the_noise() -> None:
    assert is_within({"y": IN_PROPORTION}, {"y": 1.0, "z": 0.0}, IN_PROPORTION)
    assert not is_within({"y": 1.0, "z": 1e-3}, {"y": 1.0, "z": 0.0}, IN_PROPORTION)


def test_a_few_elements_are_not_the_usual_difference() -> None:
    value = np.ones(100, np.float32)
    other = np.ones(100, np.float32)
    other[:9] = 7
    assert usual_difference(value, other) == 0
    other[:30] = np.nan
    other[30:60] = 3
    assert usual_difference(value, other) == 2
    assert (
        usual_difference(value, other[:50])
        == usual_difference([value], [other])
        == usual_difference(1, 2)
        == 0
    )
    assert usual_difference(np.arange(9), np.arange(9)[::-1]) == 0, "integers do not round"
