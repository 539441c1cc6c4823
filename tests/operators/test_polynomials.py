"""Polynomials of sizes, against Python's own arithmetic."""

from __future__ import annotations

import itertools

import pytest

from fusionc.operators.polynomials import (
    ONE,
    ZERO,
    Polynomial,
    floored,
    least,
    number,
    product,
    symbol,
)

SIZES = {"a": 3, "b": 5, "c": 0}
A, B, C = map(symbol, SIZES)
SOME = [ZERO, ONE, number(-2), A, B, C, A + B, A * B + number(4), A - B * number(3), A * A * C]


def value(polynomial: Polynomial | None) -> int:
    assert polynomial is not None and polynomial.value(SIZES) is not None
    return polynomial.value(SIZES) or 0


@pytest.mark.parametrize(("one", "other"), list(itertools.product(SOME, SOME)))
def test_arithmetic(one: Polynomial, other: Polynomial) -> None:
    assert value(one + other) == value(one) + value(other)
    assert value(one - other) == value(one) - value(other)
    assert value(one * other) == value(one) * value(other)
    assert value(least(4, one)) == min(4, value(one))
    assert one + other == other + one and one * other == other * one
    if len(other.terms) == 1:
        assert (one * other).over(other) == one
    below = value(other)
    assert floored(one, other).value(SIZES) == (value(one) // below if below else None)


@pytest.mark.parametrize("polynomial", SOME)
def test_the_text_is_an_expression(polynomial: Polynomial) -> None:
    assert eval(str(polynomial), {}, SIZES) == value(polynomial)


def test_numbers_for_some_atoms() -> None:
    mixed = least(4, A + B) * floored(A * B, number(2)) + A
    assert mixed.replaced({"a": 3}).replaced({"b": 5}) == number(value(mixed))
    assert mixed.value({"a": 3}) is None
    assert list(dict.fromkeys(mixed.atoms())) == ["a", "b"]


def test_what_is_not_known_to_divide() -> None:
    assert A.over(B) is A.over(number(2)) is ONE.over(A) is A.over(A + B) is A.over(ZERO) is None


def test_a_product_of_none() -> None:
    assert product([]) == ONE and product([A, number(2), A]).value(SIZES) == 18


def test_what_is_a_number() -> None:
    assert (A - A).number == 0 and number(7).number == 7 and A.number is None
