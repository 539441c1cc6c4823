"""Expressions of dimensions that occur in shape arithmetic: batch·seq, past + 1, min(512, seq).

An element of a shape is a number, a symbol, or an expression. An expression is written as a string
that differs from all symbols; equal expressions have equal strings. Inference only compares
symbols, and therefore works with expressions as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard

from fusionc.operators import polynomials
from fusionc.operators.polynomials import Least, Polynomial

# a number, a symbol or expression, or (serial of the value, axis) for a dimension without a symbol
Element = int | str | tuple[int, int]
INVENTED = "unk__"  # the prefix of the symbols that onnx invents for unknown dimensions
_PREFIX = "="  # of expressions
_MAX_LENGTH = 400  # of an expression, in characters
# all expressions by their strings; a symbol of the model is never a key, even if it begins with "="
_EXPRESSIONS: dict[str, Polynomial] = {}


def polynomial_of(element: Element) -> Polynomial:
    """The element as a sum of products."""
    if isinstance(element, int):
        return polynomials.number(element)
    expression = _EXPRESSIONS.get(element) if isinstance(element, str) else None
    return polynomials.symbol(element) if expression is None else expression


def element_of(total: Polynomial) -> Element | None:
    """The polynomial as one element; None if its string would be too long."""
    if total.number is not None:
        return total.number
    match total.terms:
        case (((atom,), 1),) if not isinstance(atom, Least):
            known: Element = atom
            return known
    text = _PREFIX + repr(total.terms)
    if len(text) > _MAX_LENGTH:
        return None
    _EXPRESSIONS[text] = total
    return text


def added(a: Element, b: Element) -> Element | None:
    """a + b; None if it is too long."""
    return element_of(polynomial_of(a) + polynomial_of(b))


def subtracted(a: Element, b: Element) -> Element | None:
    """a − b; None if it is too long."""
    return element_of(polynomial_of(a) - polynomial_of(b))


def multiplied(a: Element, b: Element) -> Element | None:
    """a · b; None if it is too long."""
    return element_of(polynomial_of(a) * polynomial_of(b))


def divided(a: Element, b: Element) -> Element | None:
    """a / b if the division has no remainder for any values of the symbols (b is not 0), otherwise
    None.
    """
    quotient = polynomial_of(a).over(polynomial_of(b))
    return None if quotient is None else element_of(quotient)


def least(limit: int, a: Element) -> Element | None:
    """min(limit, a) for a dimension a."""
    return element_of(polynomials.least(limit, polynomial_of(a)))


def limited(a: Element) -> tuple[int, Element] | None:
    """(limit, d) if an element is min(limit, d), otherwise None."""
    match polynomial_of(a).terms:
        case (((Least(limit, of),), 1),) if (inner := element_of(of)) is not None:
            return limit, inner
    return None


def is_static(shape: tuple[int | str | None, ...] | None) -> TypeGuard[tuple[int, ...]]:
    """Whether every size of a shape is a number."""
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def is_dimension(a: Element) -> bool:
    """Whether an element is known to be non-negative, as dimensions are."""
    return all(factor >= 0 for _, factor in polynomial_of(a).terms)


def atoms(a: Element) -> Iterator[Element]:
    """The symbols and unnamed dimensions in an element."""
    return polynomial_of(a).atoms()


def is_invented(dim: Element | None) -> bool:
    """Whether a dimension is unknown, or contains a symbol that inference invented."""
    return not isinstance(dim, int) and certainty(dim) < 2


@lru_cache(1 << 14)  # the function is often called with the same symbols
def certainty(dim: Element | None) -> int:
    """2 for a known dimension, 1 for a dimension with an invented symbol, 0 for an unknown
    dimension.
    """
    if (
        dim is None
        or (isinstance(dim, int) and dim < 0)
        or any(isinstance(atom, tuple) for atom in atoms(dim))
    ):
        return 0
    return 1 if any(str(atom).startswith(INVENTED) for atom in atoms(dim)) else 2
