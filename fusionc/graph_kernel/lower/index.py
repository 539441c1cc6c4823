"""Indices of elements. An index is a number that depends on the variables of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusionc.graph_kernel.lower.symbolic_sizes import Size, Unsupported, is_monomial
from fusionc.operators.polynomials import ONE, ZERO, Polynomial, product


@dataclass(frozen=True, eq=False)
class Variable:
    """The variable of a loop. It counts from 0 to `extent` - 1."""

    extent: Size


@dataclass(frozen=True)
class Index:
    """`offset` plus the sum of the terms. Each term is a variable and the size that it is
    multiplied by, which is not 0.
    """

    offset: Polynomial = ZERO
    terms: tuple[tuple[Variable, Size], ...] = ()

    def __add__(self, other: Index) -> Index:
        factors: dict[Variable, Polynomial] = {}
        for variable, size in self.terms + other.terms:
            factors[variable] = factors.get(variable, ZERO) + size
        if not all(map(is_monomial, factors.values())):
            raise Unsupported("an index is not a multiple of a loop's variable")
        terms = ((variable, factor) for variable, factor in factors.items() if factor != ZERO)
        return Index(self.offset + other.offset, tuple(terms))

    def times(self, size: Size) -> Index:
        """The index multiplied by a size."""
        if size == ZERO:
            return Index()
        return Index(
            self.offset * size,
            tuple((variable, factor * size) for variable, factor in self.terms),
        )

    def moved(self, by: Polynomial) -> Index:
        """The index plus a number that is the same in all iterations of the loops."""
        return Index(self.offset + by, self.terms)

    def factor(self, variable: Variable) -> Size:
        """The size that a variable is multiplied by."""
        return dict(self.terms).get(variable, ZERO)

    @property
    def variables(self) -> frozenset[Variable]:
        """The variables that the index depends on."""
        return frozenset(variable for variable, _ in self.terms)

    @property
    def digits(self) -> list[tuple[Variable, Size]]:
        """The terms, ordered by their sizes: the smallest one comes first."""
        return sorted(
            self.terms, key=lambda term: [(len(atoms), factor) for atoms, factor in term[1].terms]
        )

    @property
    def lone(self) -> Variable | None:
        """The variable, if the index equals that variable. `None` otherwise."""
        if len(self.terms) == 1 and self.offset == ZERO and self.terms[0][1] == ONE:
            return self.terms[0][0]
        return None

    def replaced(self, new: Mapping[Variable, Index]) -> Index:
        """The index in which other indices replace some variables.

        Raises Unsupported if the resulting terms cannot be added up.
        """
        result = Index(self.offset)
        for variable, size in self.terms:
            result += new.get(variable, index_of(variable)).times(size)
        return result


Element = tuple[str, tuple[Index, ...]]  # the name of a value, and an index for each axis


def index_of(variable: Variable) -> Index:
    """The index that equals a variable. If the variable's loop has only one iteration, the index is
    0.
    """
    return Index() if variable.extent == ONE else Index(ZERO, ((variable, ONE),))


def strides(shape: Sequence[Size]) -> list[Size]:
    """For each axis, the distance between two neighbours in memory. The last axis is the innermost
    one.
    """
    return [product(shape[axis + 1 :]) for axis in range(len(shape))]


def linear(indices: Sequence[Index], shape: Sequence[Size]) -> Index:
    """The position of an element in memory, counted in elements. The tensor is stored row by row,
    so that the last axis is the innermost one.
    """
    result = Index()
    for index, stride in zip(indices, strides(shape), strict=True):
        result += index.times(stride)
    return result


def divided(index: Index, shape: Sequence[Size]) -> list[Index] | None:
    """The inverse of `linear`: the index on each axis. `None` if some term does not belong to a
    single axis.
    """
    if index.offset != ZERO:
        return None
    parts: list[Index] = [Index() for _ in shape]
    for variable, size in index.terms:
        for axis, stride in enumerate(strides(shape)):
            quotient = size.over(stride)
            if (
                quotient is not None
                and shape[axis] != ONE
                and size.over(stride * shape[axis]) is None
            ):
                parts[axis] += Index(ZERO, ((variable, quotient),))
                break
        else:
            return None
    return (
        parts
        if all(_stays_below(part, size) for part, size in zip(parts, shape, strict=True))
        else None
    )


def _stays_below(index: Index, size: Size) -> bool:
    """Whether the terms, like digits of a number, count every number below a divisor of `size`."""
    reach = ONE
    for variable, factor in index.digits:
        if factor.over(reach) is None:
            return False
        reach = factor * variable.extent
    return size.over(reach) is not None


class _LoopsWanted(Exception):
    def __init__(self, variable: Variable, extents: Sequence[Size]) -> None:
        self.variable = variable
        self.extents = tuple(extents)


class SplitWanted(_LoopsWanted):
    """Raised because a loop must first be split into nested loops of these extents."""


class CutWanted(_LoopsWanted):
    """Raised because a loop must first be cut into consecutive loops of these extents."""
