"""Is one value the same as another? A table with values just inside and just outside each
tolerance.
"""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fusionc.verify.compare import (
    Mismatch,
    Yardstick,
    compare,
    largest_difference,
    largest_magnitude,
    unequal,
)

# By type: the share of the largest element by which one of 0 may be off, that by which the largest
# element itself may be off (both together), and the share of the largest up to which the tolerance
# may grow.
LIMITS = {
    "float64": (1e-7, 2e-7, 8e-3),
    "float32": (1e-4, 1.1e-3, 8e-3),
    "float16": (4e-3, 8e-3, 5e-3),
    "bfloat16": (2e-2, 4e-2, 2e-2),
    "float8_e4m3fn": (2e-2, 4e-2, 2e-2),
    "float8_e4m3fnuz": (2e-2, 4e-2, 2e-2),
    "float8_e5m2": (2e-2, 4e-2, 2e-2),
    "float8_e5m2fnuz": (2e-2, 4e-2, 2e-2),
}
NAMES = list(LIMITS)
EXACT = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def neighbours(name: str, limit: float) -> tuple[float, float]:
    """The largest number of a type below a limit, and the smallest above it, both 0.1 % from it
    where the type can.
    """
    dtype = dtype_of(name)
    if dtype.itemsize > 2:
        return limit * 0.999, limit * 1.001
    with np.errstate(invalid="ignore"):
        every = (
            np.arange(2 ** (8 * dtype.itemsize - 1), dtype=f"u{dtype.itemsize}")
            .view(dtype)
            .astype(np.float64)
        )
    every = every[np.isfinite(every)]
    return float(every[every < limit * 0.999].max()), float(every[every > limit * 1.001].min())


def off_by(name: str, values: list[float], error: float) -> Mismatch | None:
    """Two arrays of a type of which the second element differs by so much."""
    reference = np.array(values, np.float64).astype(dtype_of(name))
    candidate = reference.copy()
    candidate[1] = np.float64(values[1]) + error
    assert np.isclose(float(candidate[1]) - float(reference[1]), error, rtol=1e-3, atol=0)
    return compare(reference, candidate)


@pytest.mark.parametrize("scale", [1.0, 8.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_an_element_beside_the_largest(name: str, scale: float) -> None:
    inside, outside = neighbours(name, LIMITS[name][0] * scale)
    for sign in (1, -1):
        assert off_by(name, [scale, 0], sign * inside) is None
        assert off_by(name, [-scale, 0], sign * inside) is None
        found = off_by(name, [scale, 0], sign * outside)
        assert found is not None and found.error == pytest.approx(outside, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "inside", "outside"),
    [
        ("float64", 1.0, 1.99e-7, 2.01e-7),
        ("float64", 0.5, 1.49e-7, 1.51e-7),
        ("float32", 1.0, 1.09e-3, 1.11e-3),
        ("float32", 0.5, 5.9e-4, 6.1e-4),
        ("float16", 1.0, 16 / 2048, 17 / 2048),  # of 0.008
        ("float16", 0.5, 12 / 2048, 13 / 2048),  # of 0.006
        ("bfloat16", 1.0, 10 / 256, 11 / 256),  # of 0.04
        ("bfloat16", 0.5, 7 / 256, 8 / 256),  # of 0.03
    ],
)
def test_more_is_allowed_the_larger_an_element_is(
    name: str, value: float, inside: float, outside: float
) -> None:
    """A share of the largest one, which is 1, and a share of itself."""
    for sign in (1, -1):
        assert off_by(name, [1, sign * value], -sign * inside) is None
        assert off_by(name, [1, sign * value], -sign * outside) is not None


@pytest.mark.parametrize("name", NAMES[4:])
def test_the_next_number_of_8_bits_is_another(name: str) -> None:
    assert off_by(name, [0, 1], float(ml_dtypes.finfo(dtype_of(name)).eps)) is not None


@pytest.mark.parametrize("name", NAMES)
def test_how_far_a_tolerance_may_grow(name: str) -> None:
    absolute, _, widest = LIMITS[name]
    inside, outside = neighbours(name, widest)
    if widest > absolute:
        found = off_by(name, [1, 0], inside)
        assert found is not None and found.within_widest
    found = off_by(name, [1, 0], outside)
    assert found is not None and not found.within_widest


def test_no_type_that_can_tell_accepts_1_percent() -> None:
    for name in ("float64", "float32", "float16"):
        absolute, both, widest = LIMITS[name]
        assert max(both, widest + both - absolute) < 0.01
        found = compare(*(np.array([factor], dtype_of(name)) for factor in (1.0, 1.01)))
        assert found is not None and not found.within_widest


@pytest.mark.parametrize(
    ("name", "largest"),
    [("float64", 1e300), ("float32", 1e30), ("float16", 3e4), ("bfloat16", 1e30)],
)
def test_magnitudes_that_stand_for_infinity_hide_nothing(name: str, largest: float) -> None:
    """A mask filled with the lowest number is no scale for the rest; a large number is."""
    dtype = dtype_of(name)
    for factor, is_scale in ((0.99, True), (1.01, False)):
        reference = np.array([-largest * factor, 1], np.float64).astype(dtype)
        candidate = np.array([-largest * factor, 1.5], np.float64).astype(dtype)
        assert (compare(reference, candidate) is None) is is_scale
        assert largest_magnitude(reference) == (abs(float(reference[0])) if is_scale else 1)
    assert largest_magnitude(np.array([np.nan, -np.inf, -2], dtype)) == 2
    assert largest_magnitude(np.zeros(0, dtype)) == 0


def test_a_scale_from_elsewhere() -> None:
    zeros = np.zeros(3, np.float32)
    small = np.array([0, 0, 0.9e-4], np.float32)
    assert compare(zeros, zeros) is None and compare(zeros, small) is not None
    assert compare(zeros, small, Yardstick(least_scale=1)) is None
    assert (
        compare([zeros], [small], Yardstick(least_scale=1)) is None
        and compare({1: zeros}, {1: small}, Yardstick(least_scale=1)) is None
    )
    assert compare(zeros, small, Yardstick(least_scale=0.5)) is not None
    one = np.array([2, 0], np.float32)
    assert (
        compare(one, one + np.array([0, 1.9e-4], np.float32), Yardstick(least_scale=1)) is None
    )  # the larger of the two


@pytest.mark.parametrize("name", EXACT)
def test_what_is_no_float_is_exact(name: str) -> None:
    reference = np.array([1, 0, 1]).astype(name)
    assert compare(reference, reference.copy()) is None
    candidate = reference.copy()
    candidate[2] = 0
    found = compare(reference, candidate)
    assert found is not None and found.error is None and not found.within_widest
    assert found.reason.startswith("1 of 3 elements differ, first at [2]: ")
    assert largest_magnitude(reference) == 0 and largest_difference(reference, candidate) == 0


@pytest.mark.parametrize(("name", "part"), [("complex64", "float32"), ("complex128", "float64")])
def test_each_part_of_a_complex_number_is_a_float(name: str, part: str) -> None:
    limit = LIMITS[part][0]
    reference = np.array([1, 0], name)
    for turn in (1, 1j):
        assert compare(reference, reference + np.array([0, limit * 0.99 * turn], name)) is None
        assert compare(reference, reference + np.array([0, limit * 1.01 * turn], name)) is not None
    assert largest_magnitude(np.array([1 + 3j, -2], name)) == 3
    assert largest_difference(reference, np.array([1, 2j], name)) == 2
    matrix = np.array([[1, 0, 1j], [1, 1, 1]], name)
    other = matrix + np.array([[0, 1j, 0], [0, 0, 1]], name)
    assert unequal(matrix, other).tolist() == [[False, True, False], [False, False, True]]
    found = compare(matrix, other)
    assert found is not None and "worst at [0, 1, 1]: 1 instead of 0" in found.reason
    assert compare(np.array(1j, name), np.array(1, name)) is not None


@pytest.mark.parametrize(
    ("name", "precision", "limit"),
    [
        ("float32", "float16", 4e-3),
        ("float32", "bfloat16", 2e-2),
        ("float64", "float32", 1e-4),
        ("float64", "float16", 4e-3),
        ("float16", "float32", 4e-3),
        ("float32", "float32", 1e-4),
        ("int32", "float16", 0),
    ],
)
def test_what_was_computed_less_precisely_is_no_more_precise(
    name: str, precision: str, limit: float
) -> None:
    yardstick = Yardstick(precision=precision)
    reference = np.array([1, 0], name)
    assert compare(reference, reference, yardstick) is None
    for factor, is_accepted in ((0.99, limit > 0), (1.02, False)):
        other = reference + np.array([0, limit * factor or 1]).astype(name)
        assert (compare(reference, other, yardstick) is None) is is_accepted
        assert bool(unequal(reference, other, yardstick).any()) is not is_accepted
    if limit:
        found = compare(reference, reference + np.array([0, 1], name), yardstick)
        assert (
            found is not None
            and f"the tolerance of {precision if name != 'float16' else name}" in found.reason
        )


MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
OTHERS = {
    "type": (MATRIX.astype(np.float64), "has the type float64, the reference has float32"),
    "shape": (MATRIX.T.copy(), "has the shape [3, 2], the reference has [2, 3]"),
    "a value less": (None, "has no value"),
    "a sequence": ([MATRIX], "is a sequence or a map, and the reference gives a tensor"),
    "a map": ({"a": 1.0}, "is a sequence or a map, and the reference gives a tensor"),
    "NaN": (
        np.where(MATRIX == 4, np.nan, MATRIX).astype(np.float32),
        "NaN at other places than in the reference (1 of 6), first at [1, 1]: nan instead of 4",
    ),
    "two elements": (
        MATRIX + np.array([[0, 0, 0.5], [0, 1, 0]], np.float32),
        "2 of 6 elements differ by more than the tolerance of float32, "
        "worst at [1, 1]: 5 instead of 4, which is off by 1; 0.0045 is accepted, "
        "the largest value is 5",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_reason_says_what_differs(name: str) -> None:
    candidate, reason = OTHERS[name]
    found = compare(MATRIX, candidate)
    assert found is not None and found.reason == reason
    assert (found.error is None) is (name != "two elements")


def test_values_that_are_no_tensors() -> None:
    ones = np.ones(2, np.float32)
    found = compare([ones, ones], [ones, ones * 2])
    assert found == Mismatch(
        "element 1: 2 of 2 elements differ by more than the tolerance of float32, worst at [0]: "
        "2 instead of 1, which is off by 1; "
        "0.0011 is accepted, the largest value is 1",
        1.0,
        False,
    )
    assert compare([ones], ones) == Mismatch("is not a sequence, and the reference gives one")
    assert compare([ones], [ones, ones]) == Mismatch("has 2 elements, the reference has 1")
    assert compare({"a": ones}, [ones]) == Mismatch("is not a map, and the reference gives one")
    assert compare({"a": ones}, {"b": ones}) == Mismatch("has the keys b, the reference has a")
    assert compare({1: 1.0, 2: 0.0}, {1: 1.0, 2: 0.9e-4}) is None  # maps hold float32
    assert compare({1: 1.0, 2: 0.0}, {1: 1.0, 2: 1.1e-4}) is not None
    assert compare({1: "a"}, {1: "b"}) is not None and compare({}, {}) is None
    assert compare(None, ones) == Mismatch("the reference has no value, and the candidate has one")
    long = compare(dict.fromkeys(range(100), 1.0), dict.fromkeys(range(1, 101), 1.0))
    assert (
        long is not None
        and "has the keys 1, 2, 3" in long.reason
        and "20, 21, 22..., the ref" in long.reason
    )
    assert largest_magnitude([ones, {"a": -3 * ones}]) == 3 and largest_magnitude([]) == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_large_values_that_are_the_same_are_not_copied(name: str) -> None:
    one = np.full((50, 1000), np.nan).astype(dtype_of(name))
    other = one.copy()
    tracemalloc.start()
    try:
        assert compare(one, other) is None
        assert tracemalloc.get_traced_memory()[1] < 1.1 * one.nbytes
    finally:
        tracemalloc.stop()


def test_the_order_in_memory_is_no_difference() -> None:
    one = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert compare(one, np.asfortranarray(one)) is None
    assert compare(one, one[:, ::-1][:, ::-1]) is None
    assert compare(np.float32(1), np.float32(1)) is None
    assert compare(one, one[:, ::-1].copy()) is not None


def test_the_largest_difference() -> None:
    a = np.array([1, np.nan, 2, np.inf], np.float32)
    b = np.array([1.5, 7, 4, 7], np.float32)
    assert largest_difference(a, b) == 2 and largest_difference([a, b], [a, b]) == 0
    assert (
        largest_difference({"k": a}, {"k": b}) == 2
        and largest_difference([a[:1], a], [b[:1], b]) == 2
    )
    assert largest_difference(a, b[:3]) == 0 and largest_difference([], []) == 0


def test_a_signalling_nan_is_a_nan() -> None:
    signalling = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    with warnings.catch_warnings(action="error"):
        assert compare(signalling, np.array([np.nan, 1], np.float32)) is None
        assert compare(signalling, np.ones(2, np.float32)) is not None


def test_every_element_of_a_sequence_is_looked_at() -> None:
    one = np.ones(4, np.float32)
    little = np.float32([1, 1, 1, 1.004])
    much = np.float32([1, 1, 1, 3])
    found = compare([one, one, one], [one, little, much])
    assert found is not None and found.reason.startswith("element 1: ")
    assert found.error == pytest.approx(2) and not found.within_widest
    found = compare([one, one], [little, np.ones(3, np.float32)])
    assert found is not None and found.error is None and not found.within_widest
    found = compare([one, one], [little, one])
    assert (
        found is not None and found.error == pytest.approx(0.004, rel=1e-3) and found.within_widest
    )


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize(("factor", "is_same"), [(0.0, False), (1.02, False), (1.0001, True)])
def test_large_values_hide_no_slice_of_small_ones(axis: int, factor: float, is_same: bool) -> None:
    """Corners of boxes up to 640, and scores near 0."""
    rng = np.random.default_rng(0)
    boxes = rng.uniform(0, 640, (1, 4, 50))
    scores = rng.uniform(0, 0.5, (1, 3, 50))
    made = [np.concatenate([boxes, scores * by], 1).astype(np.float32) for by in (1, factor)]
    made = [array if axis == 1 else array.transpose(0, 2, 1) for array in made]
    assert (compare(*made) is None) is is_same
    assert compare(*made, Yardstick("approximate")) is None


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize(
    ("rows", "by", "is_same"),
    [(5, 0.02, False), (5, 0.001, True), (2, 0.02, False), (1, 0.02, True)],
)
def test_of_a_few_rows_columns_of_like_size_are_judged(
    rows: int, by: float, is_same: bool, is_last: bool
) -> None:
    """Four corners, and two scores; of one row there are too few to tell."""
    y = np.float32([[[630, 320, 310, 640, 0.9, 0.8]] * rows])
    other = y + np.float32([0, 0, 0, 0, by, 0])
    pair = (y, other) if is_last else (y.transpose(0, 2, 1), other.transpose(0, 2, 1))
    assert (compare(*pair) is None) is is_same
    assert compare(y, y + np.float32([0.6, 0, 0, 0, 0, 0])) is None


def test_columns_of_all_sizes_are_one_slice() -> None:
    """None is much smaller than the next larger one."""
    y = np.float32([[4.0**-k for k in range(10)]] * 3)
    assert compare(y, y + np.float32([0] * 9 + [0.9e-4])) is None
    y[:, 8:] /= 100
    assert compare(y, y + np.float32([0] * 9 + [0.9e-4])) is not None


def test_what_a_zero_slice_rounds_to_is_accepted() -> None:
    values = np.random.default_rng(0).uniform(-9, 9, (2, 4, 50)).astype(np.float32)
    values[:, 0] = 0
    other = values.copy()
    other[:, 0] = 1e-6
    assert compare(values, other) is None
    other[:, 0] = 1e-4
    assert compare(values, other) is not None


@pytest.mark.parametrize(
    ("dtype", "least"), [(np.float32, 2.0**-126), (np.float64, 2.0**-1022), (np.float16, 2.0**-14)]
)
def test_subnormal_numbers_that_vanish_are_no_difference_and_normal_ones_are(
    dtype: Any, least: float
) -> None:
    smallest = np.full(4, np.finfo(dtype).smallest_subnormal, dtype)
    assert compare(smallest, np.zeros(4, dtype)) is None
    assert compare(np.full(4, least, dtype), np.zeros(4, dtype)) is not None
