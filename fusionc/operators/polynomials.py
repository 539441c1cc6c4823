"""Sizes of dimensions as polynomials: sums of products of atoms, with integer factors.

An atom is an unknown size: a symbol (any hashable name), a minimum of a number and a polynomial, or
a quotient of two polynomials. Equal polynomials have equal values for all values of the atoms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Atom = Any
Product = tuple[Atom, ...]  # sorted; the empty product is 1


@dataclass(frozen=True)
class Polynomial:
    """A sum of products; a monomial if it has at most one term."""

    terms: tuple[tuple[Product, int], ...] = ()  # sorted pairs of a product and its nonzero factor

    def __add__(self, other: Polynomial) -> Polynomial:
        return _sum((*self.terms, *other.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * number(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _sum(
            (tuple(sorted((*first, *second), key=repr)), factor * second_factor)
            for first, factor in self.terms
            for second, second_factor in other.terms
        )

    def __str__(self) -> str:
        """The sum as an expression in C or Python."""
        ordered = sorted(self.terms, key=lambda term: tuple(map(str, term[0])))
        return " + ".join(_text(product, factor) for product, factor in ordered) or "0"

    @property
    def number(self) -> int | None:
        """The value of the polynomial if it has no atoms, else None."""
        if not self.terms:
            return 0
        product, factor = self.terms[0]
        return factor if len(self.terms) == 1 and not product else None

    def atoms(self) -> Iterator[Atom]:
        """All symbols of the polynomial, including those inside minima and quotients."""
        for product, _ in self.terms:
            for atom in product:
                if isinstance(atom, Least):
                    yield from atom.of.atoms()
                elif isinstance(atom, Quotient):
                    yield from atom.of.atoms()
                    yield from atom.divisor.atoms()
                else:
                    yield atom

    def over(self, other: Polynomial) -> Polynomial | None:
        """The quotient of this polynomial and `other`; None if the division is not known to be
        exact for all nonzero values of the atoms.
        """
        if len(other.terms) != 1:
            return None
        ((divisor, number_below),) = other.terms
        terms = []
        for product, factor in self.terms:
            rest = list(product)
            for atom in divisor:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if factor % number_below:
                return None
            terms.append((tuple(rest), factor // number_below))
        return _sum(terms)

    def value(self, sizes: Mapping[Atom, int]) -> int | None:
        """The value for these sizes; None if a size is missing or a divisor is 0."""
        return self.replaced(sizes).number

    def replaced(self, sizes: Mapping[Atom, int]) -> Polynomial:
        """The polynomial with these symbols replaced by numbers."""
        total = ZERO
        for product, factor in self.terms:
            part = number(factor)
            for atom in product:
                part *= _atom_replaced(atom, sizes)
            total += part
        return total


@dataclass(frozen=True)
class Least:
    """The minimum of a number and a polynomial."""

    limit: int
    of: Polynomial


@dataclass(frozen=True)
class Quotient:
    """A polynomial divided by another one, rounded down."""

    of: Polynomial
    divisor: Polynomial


ZERO = Polynomial()


def number(value: int) -> Polynomial:
    """A number as a polynomial."""
    return Polynomial((((), value),)) if value else ZERO


def symbol(atom: Atom) -> Polynomial:
    """An atom as a polynomial."""
    return Polynomial((((atom,), 1),))


ONE = number(1)


def product(sizes: Iterable[Polynomial]) -> Polynomial:
    """The product of all sizes; 1 if there are none."""
    result = ONE
    for size in sizes:
        result *= size
    return result


def least(limit: int, of: Polynomial) -> Polynomial:
    """The minimum of `limit` and `of` as a polynomial."""
    return number(min(limit, of.number)) if of.number is not None else symbol(Least(limit, of))


def floored(of: Polynomial, divisor: Polynomial) -> Polynomial:
    """The polynomial `of` // `divisor`. It has no value if the divisor is 0."""
    if of.number is not None and divisor.number:
        return number(of.number // divisor.number)
    return symbol(Quotient(of, divisor))


def _sum(terms: Iterable[tuple[Product, int]]) -> Polynomial:
    factors: dict[Product, int] = {}
    for product_, factor in terms:
        factors[product_] = factors.get(product_, 0) + factor
    return Polynomial(tuple(sorted((t for t in factors.items() if t[1]), key=repr)))


def _text(factors: Product, factor: int) -> str:
    text = " * ".join(map(str, factors))
    return text if factor == 1 and text else f"{factor} * {text}" if text else str(factor)


def _atom_replaced(atom: Atom, sizes: Mapping[Atom, int]) -> Polynomial:
    if isinstance(atom, Least):
        return least(atom.limit, atom.of.replaced(sizes))
    if isinstance(atom, Quotient):
        return floored(atom.of.replaced(sizes), atom.divisor.replaced(sizes))
    size = sizes.get(atom)
    return symbol(atom) if size is None else number(size)
