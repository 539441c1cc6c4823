"""Reshape, Transpose, Reshape by blocks of pixels, as in DepthToSpace and SpaceToDepth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusionc.model.graph import Shape
from fusionc.rewrite import Match, op, refuse, var
from fusionc.rewrite.pattern import OpFormula


def moved(order: Sequence[int]) -> OpFormula:
    """Reshape(Transpose(Reshape(x))) with this order of the axes in between."""
    apart = op.Reshape(var("x"), var("apart"), _as="first")
    return op.Reshape(op.Transpose(apart, perm=list(order)), var("together"), _as="last")


def apart(m: Match, first: int, second: int) -> tuple[Shape, int]:
    """The six dimensions in between, and the size of a block, which these two of them have."""
    shape = m.first.outputs[0].shape
    if shape is None or len(shape) != 6 or m.x.rank != 4:
        refuse("the shapes are not those of images, cut into blocks")
    size = shape[first]
    if not isinstance(size, int) or size < 2 or shape[second] != size:
        refuse("the blocks are not known to be squares")
    return shape, size


def times(dim: int | str | None, *factors: int | str | None) -> int | str | None:
    """A product of dimensions, as far as it is known."""
    dims = [d for d in (dim, *factors) if isinstance(d, int)]
    return math.prod(dims) if len(dims) == 1 + len(factors) else None


def check(actual: Shape | None, wanted: Sequence[int | str | None]) -> None:
    """Refuse shapes of equally many elements that are not known to be equal: one dimension follows
    from the others.
    """
    if actual is None or len(actual) != len(wanted):
        refuse("the shapes are not those of images, cut into blocks")
    pairs = list(zip(actual, wanted, strict=True))
    same = [a for a, b in pairs if a is not None and a == b]
    are_numbers = all(isinstance(d, int) and d > 0 for d in same)
    if len(same) < len(pairs) - 1 or (len(same) < len(pairs) and not are_numbers):
        refuse("the shapes are not known to be those of blocks")
