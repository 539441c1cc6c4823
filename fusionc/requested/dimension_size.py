"""The size that somebody asks for a dimension to have, as --input_shape and --verify_shape give
it.
"""

from __future__ import annotations

# A number, -1 for an open dimension, or the smallest and the largest size of one; the largest may
# be -1, too.
DimensionSize = int | tuple[int, int]
OPEN = -1
_SIZE_OF_OPEN = 2  # what is run for it; not 1: broadcasting would hide differences


def size_to_run(size: DimensionSize) -> int:
    """The size with which a model is run: of a range the largest, 2 for what is open, if that is
    not too small.
    """
    lower, upper = size if isinstance(size, tuple) else (_SIZE_OF_OPEN, size)
    return upper if upper != OPEN else max(lower, _SIZE_OF_OPEN)
