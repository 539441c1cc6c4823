"""The size of a dimension in --input_shape and --verify_shape."""

from __future__ import annotations

# A number, -1 for an open dimension, or a range (smallest, largest). The largest size of an open
# range is -1.
DimensionSize = int | tuple[int, int]
OPEN = -1
# The size of an open dimension in a run. It is not 1, because broadcasting would hide differences.
_SIZE_OF_OPEN = 2


def size_to_run(size: DimensionSize) -> int:
    """The size of a dimension in a run: the largest size of a range. For an open dimension or range
    it is 2, or the smallest size if that is larger.
    """
    lower, upper = size if isinstance(size, tuple) else (_SIZE_OF_OPEN, size)
    return upper if upper != OPEN else max(lower, _SIZE_OF_OPEN)
