"""One pixel as a row, and a row as a pixel: where that is part of an area, what it computes, and
where it is none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from networks import Network, check_all, check_alone, kinds_of, operators_in

Form = Callable[[Network, str], str]  # of 32 channels, one pixel → a row; or of a row → one pixel


def with_shape(op: str, *shape: int) -> Form:
    return lambda n, x: str(n.op(op, x, n.const(shape, np.int64)))


TO_ROWS: dict[str, Form] = {
    "Flatten": lambda n, x: n.op("Flatten", x),
    "Flatten from the end": lambda n, x: n.op("Flatten", x, axis=-3),
    "Reshape": with_shape("Reshape", 0, -1),
    "Reshape to numbers": with_shape("Reshape", 1, 32),
    "Squeeze": with_shape("Squeeze", 2, 3),
}
TO_PIXELS: dict[str, Form] = {
    "Unsqueeze": with_shape("Unsqueeze", 2, 3),
    "Reshape": with_shape("Reshape", 1, 32, 1, 1),
}
STAYS: dict[str, Form] = {
    "not the channels": lambda n, x: n.op("Flatten", x, axis=2),
    "all in front": with_shape("Reshape", 32, 1),
    "a batch alone": with_shape("Squeeze", 0),
    "rows of another number": lambda n, x: n.op("Reshape", x, n.const([-1, 8], np.int64)),
    "three axes": with_shape("Squeeze", 3),
    "parts of channels": with_shape("Reshape", 2, 16),
    "a shape that is computed": lambda n, x: n.op(
        "Reshape", x, n.op("Neg", n.const([-1, -32], np.int64))
    ),
}


def pixel(n: Network, batch: int | str = 1, *, mean: bool = True) -> str:
    x = n.op("Relu", n.conv(n.input(batch, 16, 6, 7), 16, 32))
    return str(n.op("GlobalAveragePool", x)) if mean else str(x)


@pytest.mark.parametrize("name", TO_ROWS)
def test_a_classifier_is_part_of_the_network(name: str) -> None:
    n = Network()
    y = n.op("Gemm", TO_ROWS[name](n, pixel(n)), n.random(40, 32), n.random(40), transB=1)
    program = check_alone(n, n.op("Sigmoid", n.product(n.op("Relu", y), 40, 10)))
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE CONV PRODUCT"


def test_a_mean_that_makes_a_row() -> None:
    n = Network()
    y = n.op("ReduceMean", pixel(n, mean=False), axes=[2, 3], keepdims=0)
    assert kinds_of(check_alone(n, n.product(y, 32, 10))) == "CONV GLOBAL_AVERAGE PRODUCT"


@pytest.mark.parametrize("back", TO_PIXELS)
def test_gates_that_products_make(back: str) -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 7), 16, 32)
    s = n.op("Relu", n.product(n.op("Flatten", n.op("GlobalAveragePool", x)), 32, 8))
    s = n.op("Sigmoid", n.op("Gemm", s, n.random(32, 8), n.random(32), transB=1))
    program = check_alone(n, n.op("Mul", x, TO_PIXELS[back](n, s)))
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE PRODUCT CONV SCALE"


def test_a_row_from_outside_becomes_a_pixel_with_a_border() -> None:
    n = Network()
    y = n.op("Unsqueeze", n.input(1, 32), n.const([2, 3], np.int64))
    assert kinds_of(check_alone(n, n.conv(y, 32, 24, 3))) == "CONV"


def test_both_forms_are_results() -> None:
    n = Network()
    y = n.op("Flatten", x := pixel(n))
    assert kinds_of(check_alone(n, x, y, n.product(y, 32, 10))) == "CONV GLOBAL_AVERAGE PRODUCT"


@pytest.mark.parametrize("name", STAYS)
def test_what_moves_more_stays_outside(name: str) -> None:
    n = Network()
    x = pixel(n)
    y = STAYS[name](n, x)
    assert operators_in(n, x, y) == [["Conv", "Relu", "GlobalAveragePool"]]


@pytest.mark.parametrize("batch", ["N", 3])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("mean", [False, True])
def test_the_rows_of_several_images(batch: int | str, count: int, mean: bool) -> None:
    n = Network()
    x = pixel(n, batch, mean=mean)
    y = n.op("Flatten", x) if mean else n.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    y = n.op("Relu", n.op("Gemm", n.op("Sigmoid", y), n.random(40, 32), n.random(40), transB=1))
    program = check_alone(n, x, y, n.product(y, 40, 10), sizes={"N": count})
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE FLATTEN CONV PRODUCT"


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("border", [0, 1])
def test_gates_of_several_images(count: int, border: int) -> None:
    n = Network()
    x = n.conv(n.input("N", 16, 6, 7), 16, 32)
    s = n.op("Relu", n.product(n.op("Flatten", n.op("GlobalAveragePool", x)), 32, 8))
    s = n.op("Unsqueeze", n.product(s, 8, 32), n.const([2, 3], np.int64))
    s = n.op("Sigmoid", n.conv(s, 32, 32, 1 + 2 * border, pads=[border] * 4))
    program = check_alone(n, n.op("Mul", x, s), sizes={"N": count})
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE FLATTEN PRODUCT PRODUCT FLATTEN CONV SCALE"


def test_more_than_one_pixel() -> None:
    n = Network()
    x = pixel(n, mean=False)
    n.outputs = [x, n.product(n.op("Flatten", x), 32 * 42, 10)]
    assert sorted(operators_in(n)) == [["Conv", "Relu"], ["MatMul", "Add"]]
    check_all(n, {})


def test_images_whose_last_axis_are_the_channels() -> None:
    n = Network()
    y = n.op("Relu", n.op("Transpose", pixel(n), perm=[0, 2, 3, 1]))
    (inside,) = operators_in(n, y, n.op("Reshape", y, n.const([1, 32], np.int64)))
    assert "Reshape" not in inside
