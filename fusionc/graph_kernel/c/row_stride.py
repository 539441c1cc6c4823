"""What is known about the distance between the elements of a row before the kernel runs."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.lower.symbolic_sizes import Size, SizeCode

_LARGE = 1024  # larger strides are not constants in the C code


@dataclass(frozen=True)
class RowStride:
    """What is known about the stride of an access along the innermost loop.

    `unit` is the stride that the fast functions of a kernel are compiled for. If `varies`, they
    take the stride as a parameter, because it is hardly ever 1. If `may_broadcast`, the stride is 0
    or 1, and there is a function for each of the two.
    """

    unit: int
    varies: bool
    may_broadcast: bool


def row_stride(stride: Size, sizes: SizeCode) -> RowStride:
    """What is known about a stride."""
    if stride.number is not None and abs(stride.number) <= _LARGE:
        return RowStride(stride.number, varies=False, may_broadcast=False)
    may_broadcast = sizes.is_zero_or_one(stride)
    return RowStride(1, not may_broadcast, may_broadcast)
