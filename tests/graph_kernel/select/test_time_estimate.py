"""What a kernel saves."""

from __future__ import annotations

import pytest
from areas import area_of

from fusionc.graph_kernel.select.time_estimate import Savings, seconds_saved

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


def test_what_an_area_saves() -> None:
    def chain(count: int) -> str:
        calls = " ".join(f"v{k + 1} = Neg(v{k})" for k in range(count))
        return f"g (float[N] v0) => (float[N] v{count}) {{ {calls} }}"

    short = area_of(chain(2))
    long = area_of(chain(8))
    assert seconds_saved(long, {"N": 1000}) > seconds_saved(short, {"N": 1000}) > 0
    assert seconds_saved(long, {"N": 1_000_000}) > 10 * seconds_saved(long, {"N": 1000})


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N] x, float[3] c) => (float[3] z) { a = Exp(x) b = Add(a, c) z = Tanh(b) }",
        (
            "g (float[N] x) => (float[1,5] z) <float[1,5] c = {1, 2, 3, 4, 5}> { a = Exp(x) b = "
            "Add(a, c) z = Tanh(b) }"
        ),
        (
            "g (float[N,M] x) => (float[N,4] z) <int64[2] s = {4, 6}> { a = Exp(x) p, z = Split "
            "<axis = 1>(a, s) }"
        ),
        "g (float[N,4] x) => (float[4] z) <int64 i = {100}> { a = Exp(x) z = Gather(a, i) }",
        "g (float[N,4] x) => (float[4] z) <int64 i = {-100}> { a = Exp(x) z = Gather(a, i) }",
        "g (float[N,M] x) => (float[M] z) <int64[1] s = {0}> { a = Exp(x) z = Squeeze(a, s) }",
        (
            "g (float[N,M] x, float[N,3] y) => (float[K,M] z) { a = Exp(x) z = Concat <axis = "
            "0>(a, y) }"
        ),
        (
            "g (float[N] x, float[M] y, float[3] c) => (float[3] z) { a = Add(x, c) b = Add(y, "
            "c) z = Mul(a, b) }"
        ),
    ],
)
def test_what_an_area_saves_whose_symbols_stand_for_few_numbers(text: str) -> None:
    assert seconds_saved(area_of(text), {}) > 0


def test_what_is_computed_once_for_a_row_costs_once() -> None:
    tail = "a = Add(m, e) b = Sqrt(a) c = Reciprocal(b) d = Mul(x, c) z = Mul(d, w)"
    sizes = "(float[2,64,1] m, float[2,64,512] x, float[512] w) => (float[2,64,512] z)"
    assert seconds_saved(area_of(f"g {sizes} <float e = {{0.001}}> {{ {tail} }}"), {}) > 10e-6


def test_what_saves_less_than_the_estimate_may_be_off_saves_nothing() -> None:
    text = "g (float[C,1] c, float[C,{}] x) => (float[C,{}] z) <float e = {{1}}> {{ a = Add(c, e) z = Mul(a, x) }}"
    small, large = (area_of(text.format(n, n), name=f"of_{n}") for n in (8, 50_000))
    assert seconds_saved(small, {}) > 0 < seconds_saved(large, {})
    assert Savings().of(small) > 0 > Savings().of(large)


@pytest.mark.parametrize(
    ("text", "pays"),
    [
        (
            (
                "g (float16[65536] x) => (float16[65536] z) { a = Tanh(x) b = Sigmoid(a) z = "
                "Mul(b, "
                "x) }"
            ),
            False,
        ),
        (
            (
                "g (float[65536] x) => (float16[65536] z) { a = Add(x, x) b = Cast <to = 10>(a) "
                "z = "
                "Neg(b) }"
            ),
            False,
        ),
        (
            "g (float[65536] x) => (float[65536] z) { a = Tanh(x) b = Sigmoid(a) z = Mul(b, x) }",
            True,
        ),
        (
            (
                "g (float[65536] x) => (int8[65536] z) { a = Add(x, x) b = Round(a) z = Cast <to = "
                "3>(b) }"
            ),
            True,
        ),
    ],
)
def test_conversions_to_float16_have_their_price(text: str, pays: bool) -> None:
    assert (Savings().of(area_of(text)) > 0) == pays


def test_a_reduction_of_distant_elements_costs_more_than_one_of_neighbours() -> None:
    sizes = "(bool[4,32,1] m, float[4,32,128] x)"
    body = "<float low = {-10000}> { a = Where(m, low, x) z = ReduceMax <axes = [AXIS], keepdims = 0>(a) }"
    columns = area_of(f"g {sizes} => (float[4,128] z) {body.replace('AXIS', '1')}", opset=17)
    rows = area_of(f"g {sizes} => (float[4,32] z) {body.replace('AXIS', '2')}", opset=17)
    assert seconds_saved(columns, {}) < 0 < seconds_saved(rows, {})
