"""Reshape, Transpose and Reshape that cut an image into blocks of pixels, as DepthToSpace does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusionc.model.graph import Shape
from fusionc.rewrite import Match, op, refuse, var
from fusionc.rewrite.pattern import OpFormula


def transposed_blocks(order: Sequence[int]) -> OpFormula:
    """Reshape(Transpose(Reshape(x))) with this permutation in the Transpose."""
    blocks = op.Reshape(var("x"), var("apart"), _as="first")
    return op.Reshape(op.Transpose(blocks, perm=list(order)), var("together"), _as="last")


def blocks_of(m: Match, first: int, second: int) -> tuple[Shape, int]:
    """The six dimensions of the blocks, and the block size. The axes `first` and `second` must both
    have this size.
    """
    shape = m.first.outputs[0].shape
    if shape is None or len(shape) != 6 or m.x.rank != 4:
        refuse("the shapes are not those of images cut into blocks")
    size = shape[first]
    if not isinstance(size, int) or size < 2 or shape[second] != size:
        refuse("the blocks are not known to be squares")
    return shape, size


def product(*factors: int | str | None) -> int | None:
    """The product of dimensions; None if one of them is unknown."""
    dims = [d for d in factors if isinstance(d, int)]
    return math.prod(dims) if len(dims) == len(factors) else None


def require_equal_shape(actual: Shape | None, wanted: Sequence[int | str | None]) -> None:
    """Refuse if two shapes are not known to be equal. Both must have the same number of elements:
    one dimension may then be unknown, because it follows from the others.
    """
    if actual is None or len(actual) != len(wanted):
        refuse("the shapes are not those of images cut into blocks")
    pairs = list(zip(actual, wanted, strict=True))
    equal = [a for a, b in pairs if a is not None and a == b]
    are_numbers = all(isinstance(d, int) and d > 0 for d in equal)
    if len(equal) < len(pairs) - 1 or (len(equal) < len(pairs) and not are_numbers):
        refuse("the shapes are not known to be those of blocks")
