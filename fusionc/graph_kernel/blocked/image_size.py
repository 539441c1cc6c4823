"""Sizes of images as they are known while a program is made: numbers, or terms with symbols. Two
sizes are equal if they are computed in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SizeTerm:
    """A symbol or another size, divided by a number (rounded down) and multiplied by a number."""

    of: str | ImageSize
    divisor: int = 1
    factor: int = 1


@dataclass(frozen=True)
class ImageSize:
    """A number of images, rows or columns: either a number, or the sum of a term and a number."""

    number: int
    term: SizeTerm | None = None

    @property
    def known(self) -> int | None:
        """The number. `None` if the size depends on a symbol."""
        return self.number if self.term is None else None

    def plus(self, number: int) -> ImageSize:
        """The sum of the size and a number."""
        return ImageSize(self.number + number, self.term)

    def times(self, factor: int) -> ImageSize:
        """The size times a number."""
        if self.term is None or factor == 1:
            return ImageSize(self.number * factor, self.term)
        return ImageSize(self.number * factor, SizeTerm(ImageSize(0, self.term), factor=factor))

    def over(self, divisor: int) -> ImageSize:
        """The size divided by a number, rounded down."""
        if self.term is None or divisor == 1:
            return ImageSize(self.number // divisor, self.term)
        return ImageSize(0, SizeTerm(self, divisor=divisor))

    def about(self, unknown: int) -> int:
        """An estimate of the size: its value if each symbol is `unknown`."""
        if self.term is None:
            return self.number
        inner = unknown if isinstance(self.term.of, str) else self.term.of.about(unknown)
        return inner // self.term.divisor * self.term.factor + self.number


def size_of(dim: int | str) -> ImageSize:
    """The size that a dimension declares."""
    return ImageSize(dim) if isinstance(dim, int) else ImageSize(0, SizeTerm(dim))


def windows_in(size: ImageSize, kernel: int, stride: int, dilation: int, pads: int) -> ImageSize:
    """The number of windows that fit into a size. It is 0 or less if none fits."""
    return size.plus(pads - dilation * (kernel - 1) - 1).over(stride).plus(1)
