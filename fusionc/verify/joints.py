"""The places of the parts of an array that is concatenated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from typing import NamedTuple

_MOST_BLOCKS = 256  # parts of an array that is judged in parts
Block = tuple[slice, ...]
Dim = int | str


class Joint(NamedTuple):
    """An axis along which parts follow one another, with their sizes, if these are known."""

    axis: int
    sizes: tuple[Dim, ...]

    def bounds(self, shape: Sequence[int]) -> list[int] | None:
        """Where parts begin and end in an output of this shape; None if that is not known."""
        known = [size for size in self.sizes if isinstance(size, int)]
        rest = shape[self.axis] - sum(known) if self.axis < len(shape) else -1
        open_ = len(self.sizes) - len(known)
        if rest < 0 or open_ > 1 or (rest and not open_):
            return None
        return [0, *accumulate(size if isinstance(size, int) else rest for size in self.sizes)]


def blocks_of(joints: Sequence[Joint], shape: Sequence[int]) -> list[Block]:
    """The parts of an output of this shape; empty if it is in one piece."""
    each = [[slice(None)] for _ in shape]
    for joint in joints:
        if (bounds := joint.bounds(shape)) is not None:
            each[joint.axis] = [slice(*pair) for pair in pairwise(bounds) if pair[0] < pair[1]]
    count = math.prod(map(len, each))
    return list(product(*each)) if 1 < count <= _MOST_BLOCKS else []
