"""Sizes that are known when a kernel runs: products of numbers and C variables, with C code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class Unsupported(Exception):
    """A kernel cannot compute an area, for this reason."""


@dataclass(frozen=True)
class Size:
    """A number times C variables, which are sorted by name; equal products are equal sizes."""

    factor: int
    atoms: tuple[str, ...] = ()

    def __mul__(self, other: Size) -> Size:
        factor = self.factor * other.factor
        return Size(factor, tuple(sorted(self.atoms + other.atoms)) if factor else ())

    def __str__(self) -> str:
        """The C expression."""
        if not self.atoms:
            return str(self.factor)
        product = " * ".join(self.atoms)
        return product if self.factor == 1 else f"{self.factor} * {product}"

    @property
    def number(self) -> int | None:
        """The size if it is a number, else None."""
        return None if self.atoms else self.factor

    def over(self, other: Size) -> Size | None:
        """The quotient if it is a size for all values of the variables, else None."""
        if not other.factor or self.factor % other.factor:
            return None
        left = list(self.atoms)
        for atom in other.atoms:
            if atom not in left:
                return None
            left.remove(atom)
        return Size(self.factor // other.factor, tuple(left))


ONE = Size(1)
ZERO = Size(0)


def product(sizes: Iterable[Size]) -> Size:
    """All sizes multiplied; 1 for none."""
    result = ONE
    for size in sizes:
        result *= size
    return result


@dataclass(frozen=True)
class SizeSum:
    """A sum of sizes, one for each product of C variables."""

    parts: tuple[Size, ...] = ()

    def __add__(self, other: SizeSum | Size) -> SizeSum:
        factors = {part.atoms: part.factor for part in self.parts}
        for part in other.parts if isinstance(other, SizeSum) else (other,):
            factors[part.atoms] = factors.get(part.atoms, 0) + part.factor
        return SizeSum(
            tuple(Size(factor, atoms) for atoms, factor in sorted(factors.items()) if factor)
        )

    def times(self, size: Size) -> SizeSum:
        """The sum multiplied by a size."""
        result = SizeSum()
        for part in self.parts:
            result += part * size
        return result

    def __str__(self) -> str:
        """The C expression."""
        return " + ".join(map(str, self.parts)) or "0"

    @property
    def size(self) -> Size | None:
        """The sum if it is a single size."""
        if not self.parts:
            return ZERO
        return self.parts[0] if len(self.parts) == 1 else None


NOTHING = SizeSum()


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
            self._known[expression] = Size(1, (name,))
            self.lines.append(f"const int64_t {name} = {expression};")
        return self._known[expression]

    def sum(self, sizes: Iterable[Size]) -> Size:
        """All sizes added up: a size, or the variable that holds their sum."""
        total = SizeSum()
        for size in sizes:
            total += size
        return total.size or self.variable(str(total))

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
        for size, number in ((one, other.number), (other, one.number)):
            if number is not None:
                if size.number is not None:
                    raise Unsupported(message)
                self.check(f"{size} == 1 || {size} == {number}", message)
                return Size(number)
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
        self._bits.update(found.atoms)
        return found

    def is_zero_or_one(self, size: Size) -> bool:
        """Whether a size is a product of results of `unless_one`."""
        return size.factor == 1 and bool(size.atoms) and self._bits.issuperset(size.atoms)
