"""The table of what depends on the order of a reduction, against rows computed in many orders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import onnx
import onnxruntime
import pytest

from fusionc.verify.reduction_bounds import REDUCTIONS, spread_of_product, spreads

Array = np.ndarray
NAN = np.nan
INF = np.inf
LARGE = 3e38

# What no order changes: NaN and infinities that are there, what overflows in each order, ordinary
# numbers.
DECIDED = {
    "ReduceSum": [
        [NAN, 1, 2],
        [INF, 1, 2],
        [INF, -INF, 1],
        [LARGE, LARGE, LARGE],
        [1, 2, 3],
        [LARGE, -LARGE],
    ],
    "ReduceMean": [[INF, -1, 5], [-LARGE, -LARGE, -LARGE]],
    "ReduceL1": [[LARGE, -LARGE, LARGE], [INF, -LARGE, -LARGE]],
    "ReduceL2": [[1e30, -1e30, 1], [1, -2, 3]],
    "ReduceSumSquare": [[1e30, -1e30, 1], [-INF, 2, 3]],
    "ReduceLogSum": [[1, 2, 3], [NAN, 1, 2]],
    "ReduceLogSumExp": [[INF, 1, 2], [-INF, 1, 2], [500, -500, 1]],
    "ReduceProd": [
        [NAN, 0, INF],
        [INF, 0, 1],
        [INF, 2, -3],
        [0, 2, 3],
        [1e30, 1e30, 2],
        [1e-30, 1e-30, 0.1],
        [1, 2, 3],
    ],
    "ReduceMax": [[INF, 1, -INF], [1, 2, 3]],
    "ReduceMin": [[INF, 1, -INF], [1, 2, 3]],
    "MaxPool": [[INF, 1, -INF]],
    "GlobalMaxPool": [[INF, 1, -INF]],
    "Softmax": [[NAN, 1, 2], [INF, 1, 2], [1, 2, 3]],
    "LogSoftmax": [[-INF, 1, 2], [1, 2, 3]],
    "LayerNormalization": [[1, 2, 3], [NAN, 1, 2]],
    "RMSNormalization": [[1, 2, 3], [1e30, 1, 1]],
    "DFT": [[1, 2, 3]],
    "STFT": [[1, 2, 3]],
}
OPEN = {
    "ReduceSum": [[LARGE, LARGE, -LARGE], [LARGE, LARGE, -LARGE, -LARGE], [INF, -LARGE, -LARGE]],
    "ReduceMean": [[LARGE, -LARGE, LARGE, 1]],
    "ReduceLogSum": [[1e8, -1e8, 1], [LARGE, LARGE, -LARGE]],
    "ReduceLogSumExp": [[NAN, 1, 2], [NAN, INF, 2]],
    "ReduceProd": [
        [1e30, 1e30, 0],
        [1e30, 1e30, 1e-30, 1e-30],
        [INF, 1e-30, 1e-30],
        [1e-30, 1e-30, 1e30],
    ],
    "ReduceMax": [[NAN, 1, 2]],
    "ReduceMin": [[1, NAN, INF]],
    "MaxPool": [[NAN, 1, 2]],
    "GlobalMaxPool": [[1, NAN]],
    "LogSoftmax": [[NAN, 1, 2], [INF, 1, 2]],
    "LayerNormalization": [[1e30, 1, 1], [1e6, 1e6, 1e6]],
}


def spread_of(op: str, row: list[float], dtype: type = np.float32) -> Array:
    x = np.array([row], dtype)
    shape = (1,) if op.startswith("Reduce") else x.shape
    found = spreads(
        op, {"axes": [1], "keepdims": 0} if len(shape) == 1 else {}, [x], [np.ones(shape, dtype)]
    )
    assert [one.shape for one in found] == [shape]
    return found[0]


def test_every_operator_is_tried() -> None:
    assert set(DECIDED) == set(REDUCTIONS) and set(OPEN) <= set(REDUCTIONS)


@pytest.mark.parametrize(("op", "row"), [(op, row) for op, rows in DECIDED.items() for row in rows])
def test_what_no_order_changes(op: str, row: list[float]) -> None:
    assert np.isfinite(spread_of(op, row)).all()


@pytest.mark.parametrize(("op", "row"), [(op, row) for op, rows in OPEN.items() for row in rows])
def test_what_depends_on_the_order(op: str, row: list[float]) -> None:
    assert np.isinf(spread_of(op, row)).any()


def test_a_nan_is_one_behind_a_logarithm_of_softmax() -> None:
    """The rest of its row may be something else."""
    assert spread_of("LogSoftmax", [np.nan, 1, 2]).tolist() == [[0, np.inf, np.inf]]


def test_a_nan_is_in_the_windows_of_its_channel() -> None:
    x = np.ones((2, 3, 4, 4), np.float32)
    x[1, 2, 0, 3] = np.nan
    (spread,) = spreads(
        "MaxPool", {"kernel_shape": [2, 2]}, [x], [np.ones((2, 3, 3, 3), np.float32)]
    )
    assert np.isinf(spread[1, 2]).all() and np.isinf(spread).sum() == 9


def test_double_goes_farther() -> None:
    assert np.isfinite(spread_of("ReduceSum", [LARGE, LARGE, -LARGE], np.float64)).all()
    assert np.isinf(spread_of("ReduceSum", [1e308, 1e308, -1e308], np.float64)).all()


def test_float16_is_summed_in_float32_and_may_be_rounded() -> None:
    assert np.isfinite(spread_of("ReduceSum", [6e4, 6e4, -6e4], np.float16)).all()
    x = np.array([[6e4, 6e4]], np.float16)
    (spread,) = spreads("ReduceSum", {"axes": [1]}, [x], [np.array([[np.inf]], np.float16)])
    assert np.isinf(spread).all()


def test_what_cancels_is_off_by_as_much_as_what_is_summed() -> None:
    (off,) = spread_of("ReduceSum", [1e8, 1, -1e8])
    assert 1 < off < 100
    assert spread_of("ReduceSum", [1e8, 1, 1e8]) < 100
    assert spread_of("ReduceSum", [1e8, -1e8]) == 0  # two elements have one order


AXES = {  # of 3×2×2 elements, three of which overflow and are 0
    (0,): [[False, True], [False, False]],
    (1,): [[False, False]] * 3,
    (-1,): [[False, False]] * 3,
    (0, 1): [False, True],
    (-1, 0): [True, False],
    (): True,
}


def test_what_is_subnormal_behind_a_softmax_has_few_digits() -> None:
    x = np.array([[0, -50, -86, -95, -104, -200]], np.float32)
    (spread,) = spreads("Softmax", {}, [x], [np.exp(x)])
    assert (spread > 0).tolist() == [
        [False, False, False, True, True, False]
    ] and spread.max() < 1e-44


@pytest.mark.parametrize("axes", AXES)
def test_axes_and_rows_are_those_of_the_operator(axes: tuple[int, ...]) -> None:
    x = np.ones((3, 2, 2), np.float32)
    x[:, 0, 1] = 1e30, 1e30, 0
    wanted = np.array(AXES[axes])
    for attributes, more in (({"axes": axes}, []), ({}, [np.array(axes, np.int64)])):
        (spread,) = spreads(
            "ReduceProd", {**attributes, "keepdims": 0}, [x, *more], [np.zeros(wanted.shape, "f4")]
        )
        assert np.isinf(spread).tolist() == wanted.tolist()


def test_no_axes_may_mean_no_reduction() -> None:
    x = np.full((2, 3), np.nan, np.float32)
    (spread,) = spreads("ReduceMax", {"noop_with_empty_axes": 1}, [x], [x])
    assert spread.shape == x.shape and not spread.any()


def test_rows_of_nothing() -> None:
    for op in REDUCTIONS:
        x = np.zeros((2, 0), np.float32)
        shape = (2, 1) if op.startswith("Reduce") else (2, 0)
        (spread,) = spreads(
            op, {"axes": [1]} if op.startswith("Reduce") else {}, [x], [np.zeros(shape, np.float32)]
        )
        assert spread.shape == shape and not spread.any()


IN_ONE_ORDER = {"ReduceSum": np.add.accumulate, "ReduceProd": np.multiply.accumulate}


def orders(row: Array) -> Iterator[list[Array]]:
    """The parts in which a processor may take a row: as many as vectors have elements."""
    yield [row]
    yield [row[::-1]]
    for lanes in (4, 8, 16, 32):
        yield [row[lane::lanes] for lane in range(min(lanes, row.size))]
        yield list(np.array_split(row, min(lanes, row.size)))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd"])
def test_orders_of_processors_differ_by_no_more_than_the_spread(op: str) -> None:
    rng = np.random.default_rng(0)
    apply = IN_ONE_ORDER[op]
    seen = {"nothing": 0, "anything": 0}
    with np.errstate(all="ignore"):
        for number in range(400):
            count = int(rng.integers(1, 120))
            scale = rng.choice([1.0, 30.0, 60.0, 120.0])
            low, high = (-scale, scale) if op == "ReduceProd" else (scale - 8, scale + 8)
            row = (rng.standard_normal(count) * 2.0 ** rng.uniform(low, high, count)).astype(
                np.float32
            )
            if number % 3 == 0:
                row[rng.integers(count)] = rng.choice([0.0, np.inf, -np.inf, np.nan])
            found = [
                apply(np.array([apply(part)[-1] for part in parts]))[-1] for parts in orders(row)
            ]
            (spread,) = spreads(op, {"axes": [0], "keepdims": 0}, [row], [np.array(found[0])])
            seen["anything" if np.isinf(spread) else "nothing"] += 1
            allowed = 4 * float(spread) + 1e-5 * abs(float(found[0]))
            if np.isfinite(spread):
                for other in found:
                    same = (
                        np.array_equal(other, found[0], equal_nan=True)
                        or abs(other - found[0]) <= allowed
                    )
                    assert same, (row.tolist(), found, spread)
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "op", ["ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd", "ReduceMax", "ReduceMin"]
)
def test_whole_numbers_have_one_result(op: str, dtype: type) -> None:
    row = np.array([[1, -1, 0, 1, 1, 1, 2, 3]], dtype)
    result = np.array(
        [
            {
                "ReduceSum": 8,
                "ReduceL1": 10,
                "ReduceSumSquare": 18,
                "ReduceMax": 3,
                "ReduceMin": -1,
            }.get(op, 0)
        ]
    )
    assert not spreads(op, {"axes": [1], "keepdims": 0}, [row], [result.astype(dtype)])[0].any()


def test_sums_that_need_no_rounding_have_one_result() -> None:
    assert not spread_of("ReduceSum", [1.5, 2.25, -3, 1000]).any()
    assert not spread_of("ReduceSum", [2.0**23, 1, 1, 1]).any()
    assert spread_of("ReduceSum", [2.0**24, 1, 1, 1]).all()
    assert spread_of("ReduceSum", [1.1, 2.25, -3, 1000]).all()
    assert spread_of("ReduceProd", [5001, 5003, 5007]).all()


def test_the_mean_of_whole_numbers_is_rounded() -> None:
    assert spread_of("ReduceMean", [1, 2, 2]).all()
    assert spreads(
        "ReduceMean",
        {"axes": [1], "keepdims": 0},
        [np.ones((1, 4), np.float16)],
        [np.ones(1, np.float16)],
    )[0].all()


@pytest.mark.parametrize(
    ("factors", "is_open"),
    [
        ((1e30, 1e30, 0), True),
        ((1e30, 1e30, 1e-30), True),
        ((1e-30, 1e-30, 1e30), True),
        ((INF, 1e-30, 1e-30), True),
        ((1e30, 1e30, 2), False),
        ((1e-30, 1e-30, 1e-30), False),
        ((1, 2, 3), False),
        ((0, 2, 3), False),
        ((INF, 0, 1e30), False),
        ((NAN, 1e30, 0), False),
        ((INF, 1e30, -1e30), False),
    ],
)
def test_which_products_of_several_values_are_open(
    factors: tuple[float, ...], is_open: bool
) -> None:
    first, *others = [np.array([factor], np.float32) for factor in factors]
    with np.errstate(all="ignore"):
        results = {
            np.float32(np.prod(order, dtype=np.float32)).tobytes()
            for order in permutations(map(float, factors))
        }
    spread = spread_of_product([np.ones((2, 1), np.float32), first, *others])
    assert spread.shape == (2, 1) and (np.isinf(spread) == is_open).all()
    assert is_open == (len(results) > 1), "the orders say otherwise"


@pytest.mark.parametrize("length", [7, 15, 50, 99, 100, 400, 441, 1000, 512])
def test_transforms_are_as_far_off_as_they_may_be(length: int) -> None:
    x = np.random.default_rng(length).normal(size=(3, length, 1)).astype(np.float32)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> agraph (float[3,N,1] x) => (float[3,N,2] y) { y = DFT (x) }'
    )
    (result,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    exact = np.fft.fft(x[..., 0].astype(np.float64))
    error = np.abs(result - np.stack([exact.real, exact.imag], -1))
    (spread,) = spreads("DFT", {}, [x], [result])
    assert (error <= spread).all()
