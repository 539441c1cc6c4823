"""Sums of products of dimensions, as far as shape arithmetic makes them: batch·seq, past + 1,
min(512, seq).

An element of a shape is a number, a symbol, or an expression, which is written into a string of its
own kind: two expressions that are written alike are always equal. So inference, which compares
symbols only, can carry them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeGuard

# a number, a symbol, or (serial of a value, axis) for a dimension without one
Element = int | str | tuple[int, int]
INVENTED = "unk__"  # how the symbols begin that onnx invents for dimensions it does not know
_MARK = "="  # how expressions begin
# products of atoms, each with its factor; the empty product is one
Sum = dict[tuple[Any, ...], int]
_LONGEST = 400  # characters
# what was written here; a symbol of the model's own is none, whatever it looks like
_SUMS: dict[str, Sum] = {}


def sum_of(element: Element) -> Sum:
    """The element as a sum, which the caller may change."""
    if isinstance(element, int):
        return {(): element} if element else {}
    written = _SUMS.get(element) if isinstance(element, str) else None
    return dict(written) if written is not None else {(element,): 1}


def element_of(total: Sum) -> Element | None:
    """The sum as one element; None where it is too long to be worth it."""
    terms = sorted(((product, factor) for product, factor in total.items() if factor), key=repr)
    if not terms:
        return 0
    (product, factor), *others = terms
    if not others and product == ():
        return factor
    if not others and factor == 1 and len(product) == 1 and not _is_least(product[0]):
        atom: Element = product[0]
        return atom
    text = _MARK + repr(tuple(terms))
    if len(text) > _LONGEST:
        return None
    _SUMS[text] = dict(terms)
    return text


def _is_least(atom: Any) -> bool:
    return isinstance(atom, tuple) and atom[0] == "min"


def added(a: Element, b: Element, sign: int = 1) -> Element | None:
    """a + sign · b; None where it is too long."""
    total = sum_of(a)
    for product, factor in sum_of(b).items():
        total[product] = total.get(product, 0) + sign * factor
    return element_of(total)


def multiplied(a: Element, b: Element) -> Element | None:
    """a · b; None where it is too long."""
    total: Sum = {}
    for one, factor in sum_of(a).items():
        for other, times in sum_of(b).items():
            product = tuple(sorted((*one, *other), key=repr))
            total[product] = total.get(product, 0) + factor * times
    return element_of(total)


def divided(a: Element, b: Element) -> Element | None:
    """a / b where nothing is left over, whatever the dimensions are (b is not zero); else None."""
    divisor = sum_of(b)
    if len(divisor) != 1:  # zero, or several terms
        return None
    ((below, by),) = divisor.items()
    total: Sum = {}
    for product, factor in sum_of(a).items():
        left = list(product)
        for atom in below:
            if atom not in left:
                return None
            left.remove(atom)
        if factor % by:
            return None
        total[tuple(left)] = factor // by
    return element_of(total)


def least(limit: int, a: Element) -> Element | None:
    """min(limit, a) of a dimension a."""
    return min(limit, a) if isinstance(a, int) else element_of({(("min", limit, a),): 1})


def limited(a: Element) -> tuple[int, Element] | None:
    """The limit and the dimension of which an element is the smaller one."""
    match list(sum_of(a).items()):
        case [((("min", limit, inner),), 1)]:
            return limit, inner
    return None


def is_static(shape: tuple[int | str | None, ...] | None) -> TypeGuard[tuple[int, ...]]:
    """Whether every size of a shape is a number, whatever the model runs with."""
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def is_dimension(a: Element) -> bool:
    """Whether an element is never negative."""
    return all(factor >= 0 for factor in sum_of(a).values())


def atoms(a: Element) -> Iterator[Element]:
    """The symbols and unnamed dimensions that an element is made of."""
    for product in sum_of(a):
        for atom in product:
            if _is_least(atom):
                yield from atoms(atom[2])
            else:
                yield atom


def is_invented(dim: Element | None) -> bool:
    """Whether a dimension is unknown, or made of a symbol that only this inference knows."""
    return not isinstance(dim, int) and certainty(dim) < 2


@lru_cache(1 << 14)  # of each symbol this is asked again and again
def certainty(dim: Element | None) -> int:
    """2 for a dimension that is known, 1 for one with a name that inference invented, 0 where
    nothing can be said.
    """
    if (
        dim is None
        or (isinstance(dim, int) and dim < 0)
        or any(isinstance(atom, tuple) for atom in atoms(dim))
    ):
        return 0
    return 1 if any(str(atom).startswith(INVENTED) for atom in atoms(dim)) else 2
