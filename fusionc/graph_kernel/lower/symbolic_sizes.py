"""C code for sizes that are known when a kernel runs: polynomials of C variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fusionc.operators.polynomials import ONE, ZERO, Polynomial, symbol

# A size is a monomial: a number times C variables. Only offsets are sums.
Size = Polynomial


class Unsupported(Exception):
    """A kernel cannot compute an area, for this reason."""


def is_monomial(total: Polynomial) -> bool:
    """Whether a sum is a size."""
    return len(total.terms) <= 1


@dataclass
class SizeCode:
    """C statements that compute sizes, and return a message if inputs contradict the area."""

    lines: list[str] = field(default_factory=list)
    _known: dict[str, Size] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _bits: set[str] = field(default_factory=set)

    def variable(self, expression: str) -> Size:
        """The variable that holds a C expression; equal expressions share one."""
        if expression not in self._known:
            name = f"s{len(self._known)}"
            self._known[expression] = symbol(name)
            self.lines.append(f"const int64_t {name} = {expression};")
        return self._known[expression]

    def sum(self, sizes: Iterable[Size]) -> Size:
        """All sizes added up: a size, or the variable that holds their sum."""
        total = sum(sizes, ZERO)
        return total if is_monomial(total) else self.variable(str(total))

    def check(self, condition: str, message: str) -> None:
        """Let the C code return a message if a condition does not hold."""
        if condition not in self._checked:
            self._checked.add(condition)
            self.lines.append(f'if (!({condition})) return "{message}";')

    def equal(self, one: Size, other: Size, message: str) -> None:
        """Require that two sizes are equal. Raises Unsupported if they never are."""
        if one == other:
            return
        if one.number is not None and other.number is not None:
            raise Unsupported(message)
        self.check(f"{one} == {other}", message)

    def broadcast(self, one: Size, other: Size) -> Size:
        """The size of two that are broadcast to each other."""
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
        """Require that a size can be broadcast to that of a whole. Raises Unsupported if it never
        can.
        """
        if size not in (ONE, whole):
            if size.number is not None and whole.number is not None:
                raise Unsupported("sizes cannot be broadcast")
            self.check(f"{size} == 1 || {size} == {whole}", "sizes cannot be broadcast")

    def unless_one(self, size: Size) -> Size:
        """0 if `size` is 1, else 1: the factor of a stride that may be broadcast."""
        found = self.variable(f"{size} != 1")
        self._bits.update(found.atoms())
        return found

    def is_zero_or_one(self, size: Size) -> bool:
        """Whether a size is a product of results of `unless_one`."""
        ((variables, factor),) = size.terms or (((), 0),)
        return factor == 1 and bool(variables) and self._bits.issuperset(variables)
