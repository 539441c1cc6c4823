"""C code for sizes that are unknown until a kernel runs. They are polynomials of C variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fusionc.operators.polynomials import ONE, ZERO, Polynomial, symbol

# A size must be a monomial: a number multiplied by C variables. Only offsets may be sums of
# monomials.
Size = Polynomial


class Unsupported(Exception):
    """A kernel cannot compute an area; the message says why."""


def is_monomial(total: Polynomial) -> bool:
    """Whether a polynomial has at most one term, so that it can be a size."""
    return len(total.terms) <= 1


@dataclass
class SizeCode:
    """C statements that compute sizes. They return a message if the sizes of the inputs contradict
    the area.
    """

    lines: list[str] = field(default_factory=list)
    _known: dict[str, Size] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _bits: set[str] = field(default_factory=set)

    def variable(self, expression: str) -> Size:
        """The C variable that contains an expression. Equal expressions share one variable."""
        if expression not in self._known:
            name = f"s{len(self._known)}"
            self._known[expression] = symbol(name)
            self.lines.append(f"const int64_t {name} = {expression};")
        return self._known[expression]

    def sum(self, sizes: Iterable[Size]) -> Size:
        """The sum of sizes: as a size, or as a C variable if it has several terms."""
        total = sum(sizes, ZERO)
        return total if is_monomial(total) else self.variable(str(total))

    def check(self, condition: str, message: str) -> None:
        """Add C code that returns the message unless the condition holds."""
        if condition not in self._checked:
            self._checked.add(condition)
            self.lines.append(f'if (!({condition})) return "{message}";')

    def equal(self, one: Size, other: Size, message: str) -> None:
        """Require that two sizes are equal. Raises Unsupported if they are numbers that differ."""
        if one == other:
            return
        if one.number is not None and other.number is not None:
            raise Unsupported(message)
        self.check(f"{one} == {other}", message)

    def broadcast(self, one: Size, other: Size) -> Size:
        """The size that results if two sizes are broadcast to each other. Raises Unsupported if two
        numbers cannot be.
        """
        if one == other or other == ONE:
            return one
        if one == ONE:
            return other
        message = "sizes cannot be broadcast"
        for size, known in ((one, other), (other, one)):
            if known.number is not None:
                if size.number is not None:
                    raise Unsupported(message)
                self.check(f"{size} == 1 || {size} == {known}", message)
                return known
        first, second = sorted((str(one), str(other)))
        self.check(f"{first} == {second} || {first} == 1 || {second} == 1", message)
        return self.variable(f"{first} == 1 ? {second} : {first}")

    def spread(self, size: Size, whole: Size) -> None:
        """Require that `size` can be broadcast to `whole`. Raises Unsupported if they are numbers
        for which this is impossible.
        """
        if size not in (ONE, whole):
            if size.number is not None and whole.number is not None:
                raise Unsupported("sizes cannot be broadcast")
            self.check(f"{size} == 1 || {size} == {whole}", "sizes cannot be broadcast")

    def unless_one(self, size: Size) -> Size:
        """0 if `size` is 1, otherwise 1. The stride of an axis is multiplied by this factor, so
        that it is 0 if the axis is broadcast.
        """
        found = self.variable(f"{size} != 1")
        self._bits.update(found.atoms())
        return found

    def is_zero_or_one(self, size: Size) -> bool:
        """Whether a size is a product of results of `unless_one`."""
        ((variables, factor),) = size.terms or (((), 0),)
        return factor == 1 and bool(variables) and self._bits.issuperset(variables)
