"""Arithmetic with symbols: what is written alike is always equal, and what is not known to be exact
is not said.
"""

from __future__ import annotations

import itertools

from fusionc.operators.polynomials import symbol
from fusionc.shapes.expressions import (
    Element,
    added,
    atoms,
    divided,
    is_dimension,
    least,
    limited,
    multiplied,
    polynomial_of,
    subtracted,
)

VALUES = {"a": 3, "b": 5, "c": 0}


def number(element: Element | None) -> int:
    """What an element is where the symbols are these numbers."""
    assert element is not None
    value = polynomial_of(element).value(VALUES)
    assert value is not None
    return value


def made() -> list[Element]:
    found: list[Element] = [0, 1, 7, "a", "b", "c"]
    for one, other in itertools.product(list(found), repeat=2):
        found += [
            e
            for e in (added(one, other), subtracted(one, other), multiplied(one, other))
            if e is not None
        ]
    found += [
        e for e in (least(4, e) for e in ("a", "b", 9, added("a", "b") or 0)) if e is not None
    ]
    return list(dict.fromkeys(found))


def test_sums() -> None:
    for one, other in itertools.product(made(), repeat=2):
        assert number(added(one, other)) == number(one) + number(other)
        assert number(subtracted(one, other)) == number(one) - number(other)
        assert added(one, other) == added(other, one)


def test_products_and_quotients() -> None:
    for one, other in itertools.product(made(), repeat=2):
        product = multiplied(one, other)
        assert number(product) == number(one) * number(other)
        assert product is not None
        if other != 0 and len(polynomial_of(other).terms) == 1:
            assert divided(product, other) == one


def test_what_does_not_go_up() -> None:
    assert (
        divided("a", "b")
        is divided("a", 2)
        is divided(1, "a")
        is divided("a", added("a", "b") or 0)
        is None
    )
    assert divided("a", 0) is None


def test_what_cancels() -> None:
    assert subtracted("a", "a") == 0
    assert subtracted(added("a", 1) or 0, 1) == "a"


def test_limits() -> None:
    assert least(4, 9) == 4
    assert limited(least(4, "a") or 0) == (4, "a")
    assert limited("a") is None and limited(multiplied(2, least(4, "a") or 0) or 0) is None
    assert list(atoms(least(4, "a") or 0)) == ["a"]


def test_what_may_be_negative() -> None:
    assert (
        is_dimension("a")
        and is_dimension(added("a", 1) or 0)
        and not is_dimension(subtracted("a", 1) or 0)
    )


def test_a_symbol_of_the_models_own_is_no_expression() -> None:
    for text in ("=", "=1", "=(", "=x", "=((('a', 'b'), 1)"):
        assert polynomial_of(text) == symbol(text)


def test_what_is_too_long_is_not_said() -> None:
    assert added("a" * 300, "b" * 300) is None
