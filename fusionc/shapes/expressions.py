"""Sums of products of dimensions, as far as shape arithmetic makes them: batch·seq, past + 1,
min(512, seq).

An element of a shape is a number, a symbol, or an expression, which is written as a string that no
symbol has: equal strings are equal expressions. So inference, which only compares symbols, can
carry expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard

from fusionc.operators import polynomials
from fusionc.operators.polynomials import Least, Polynomial

# a number, a symbol, or (serial of a value, axis) for a dimension without one
Element = int | str | tuple[int, int]
INVENTED = "unk__"  # how the symbols begin that onnx invents for dimensions it does not know
_MARK = "="  # how expressions begin
_LONGEST = 400  # characters
# by string; a symbol of the model's own is never in it, whatever it looks like
_WRITTEN: dict[str, Polynomial] = {}


def polynomial_of(element: Element) -> Polynomial:
    """The element as a sum of products."""
    if isinstance(element, int):
        return polynomials.number(element)
    written = _WRITTEN.get(element) if isinstance(element, str) else None
    return polynomials.symbol(element) if written is None else written


def element_of(total: Polynomial) -> Element | None:
    """The sum as one element; None if it is too long to be worth it."""
    if total.number is not None:
        return total.number
    match total.terms:
        case (((atom,), 1),) if not isinstance(atom, Least):
            known: Element = atom
            return known
    text = _MARK + repr(total.terms)
    if len(text) > _LONGEST:
        return None
    _WRITTEN[text] = total
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
    """a / b if nothing is left over, whatever the dimensions are (b is not zero); else None."""
    quotient = polynomial_of(a).over(polynomial_of(b))
    return None if quotient is None else element_of(quotient)


def least(limit: int, a: Element) -> Element | None:
    """min(limit, a) of a dimension a."""
    return element_of(polynomials.least(limit, polynomial_of(a)))


def limited(a: Element) -> tuple[int, Element] | None:
    """The limit and the dimension if an element is the smaller one of these."""
    match polynomial_of(a).terms:
        case (((Least(limit, of),), 1),) if (inner := element_of(of)) is not None:
            return limit, inner
    return None


def is_static(shape: tuple[int | str | None, ...] | None) -> TypeGuard[tuple[int, ...]]:
    """Whether every size of a shape is a number, whatever the model runs with."""
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def is_dimension(a: Element) -> bool:
    """Whether an element is never negative."""
    return all(factor >= 0 for _, factor in polynomial_of(a).terms)


def atoms(a: Element) -> Iterator[Element]:
    """The symbols and unnamed dimensions that an element is made of."""
    return polynomial_of(a).atoms()


def is_invented(dim: Element | None) -> bool:
    """Whether a dimension is unknown, or made of a symbol that only this inference knows."""
    return not isinstance(dim, int) and certainty(dim) < 2


@lru_cache(1 << 14)  # of each symbol this is asked again and again
def certainty(dim: Element | None) -> int:
    """2 for a known dimension, 1 for one whose name inference invented, 0 for an unknown one."""
    if (
        dim is None
        or (isinstance(dim, int) and dim < 0)
        or any(isinstance(atom, tuple) for atom in atoms(dim))
    ):
        return 0
    return 1 if any(str(atom).startswith(INVENTED) for atom in atoms(dim)) else 2
