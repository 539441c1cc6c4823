"""The parts of an array that is the result of a concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from typing import NamedTuple

_MOST_BLOCKS = 256  # the largest number of parts in which an array is judged
Block = tuple[slice, ...]
Dim = int | str


class Joint(NamedTuple):
    """An axis along which parts are concatenated, and the sizes of the parts along it: numbers, or
    names of dynamic dimensions.
    """

    axis: int
    sizes: tuple[Dim, ...]

    def bounds(self, shape: Sequence[int]) -> list[int] | None:
        """The bounds of the parts in an output of this shape. None if they are unknown, because
        more than one part has a dynamic size, or because the sizes do not add up to the shape.
        """
        known = [size for size in self.sizes if isinstance(size, int)]
        rest = shape[self.axis] - sum(known) if self.axis < len(shape) else -1
        open_ = len(self.sizes) - len(known)
        if rest < 0 or open_ > 1 or (rest and not open_):
            return None
        return [0, *accumulate(size if isinstance(size, int) else rest for size in self.sizes)]


def blocks_of(joints: Sequence[Joint], shape: Sequence[int]) -> list[Block]:
    """The parts of an output of this shape. Empty if it is not divided into parts."""
    each = [[slice(None)] for _ in shape]
    for joint in joints:
        if (bounds := joint.bounds(shape)) is not None:
            each[joint.axis] = [slice(*pair) for pair in pairwise(bounds) if pair[0] < pair[1]]
    count = math.prod(map(len, each))
    return list(product(*each)) if 1 < count <= _MOST_BLOCKS else []
