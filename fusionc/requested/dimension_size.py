"""The size of a dimension in --input_shape and --verify_shape."""

from __future__ import annotations

# A number, -1 for an open dimension (any size), or a range (smallest, largest). If a range is open,
# that is, has no upper end, its largest size is -1.
DimensionSize = int | tuple[int, int]
OPEN = -1
# The size of an open dimension in a run. It is not 1, because a dimension of 1 is broadcast, which
# may hide differences.
_SIZE_OF_OPEN = 2


def size_to_run(size: DimensionSize) -> int:
    """The size of a dimension when the model is run: for a range, its largest size. For an open
    dimension or an open range it is 2, or the smallest size of the range if this is larger.
    """
    lower, upper = size if isinstance(size, tuple) else (_SIZE_OF_OPEN, size)
    return upper if upper != OPEN else max(lower, _SIZE_OF_OPEN)
