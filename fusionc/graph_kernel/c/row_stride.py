"""The distance between the elements of a row, as far as it is known before the kernel runs."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.lower.symbolic_sizes import Size, SizeCode

_LARGE = 1024  # strides from here on are not constants in the code


@dataclass(frozen=True)
class RowStride:
    """The stride of an access along the innermost loop.

    `unit` is the number that the fast functions of a kernel assume, unless it `varies`: then it is
    hardly ever 1. If it `may_broadcast` it is 0 or 1, and there is a function for both.
    """

    unit: int
    varies: bool
    may_broadcast: bool


def row_stride(stride: Size, sizes: SizeCode) -> RowStride:
    """The known properties of a stride."""
    if stride.number is not None and abs(stride.number) <= _LARGE:
        return RowStride(stride.number, varies=False, may_broadcast=False)
    may_broadcast = sizes.is_zero_or_one(stride)
    return RowStride(1, not may_broadcast, may_broadcast)
