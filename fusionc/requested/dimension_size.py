"""The size that a user asks for in a dimension, as --input_shape and --verify_shape give it."""

from __future__ import annotations

# A number, -1 for an open dimension, or the smallest and the largest size of one; the largest may
# be -1, too.
DimensionSize = int | tuple[int, int]
OPEN = -1
_SIZE_OF_OPEN = 2  # the size in a run; not 1, as broadcasting would hide differences


def size_to_run(size: DimensionSize) -> int:
    """The size with which a model is run: the largest of a range; 2 for an open one, or the lower
    bound if that is larger.
    """
    lower, upper = size if isinstance(size, tuple) else (_SIZE_OF_OPEN, size)
    return upper if upper != OPEN else max(lower, _SIZE_OF_OPEN)
