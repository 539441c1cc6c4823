"""What the passes about products of quantized elements have in common: which scales and zero points they can take."""

from __future__ import annotations

from typing import Any

from fusionc.model.graph import Edge
from fusionc.passes.weights import shape_of
from fusionc.rewrite import refuse


def columns_of(value: Edge) -> int:
    """The columns of a matrix. Refuses one that may have no rows, or that is no matrix of known shape."""
    shape = shape_of(value) or ()
    if len(shape) != 2 or not isinstance(shape[0], int) or not isinstance(shape[1], int) or not shape[0]:
        refuse("the second operand is no matrix of a known shape")
    return shape[1]


def is_single(value: Edge | None) -> bool:
    """Whether this is left out, or known to be a single number."""
    return value is None or value.shape in ((), (1,))


def check_columns(value: Edge | None, columns: int) -> None:
    """Refuse what is not left out, a single number, or one number for each column."""
    if value is not None and not is_single(value) and value.shape != (columns,):
        refuse("a scale or zero point is not one number for each column")


def check_row(bias: Edge | None, columns: int) -> None:
    """Refuse an addend that is there and not one number for each column."""
    if bias is not None and bias.shape != (columns,):
        refuse("the addend is not one number for each column")


def scales_of(first: Edge, second: Edge, columns: int) -> tuple[Edge, Edge]:
    """Of two scales, first the one of all of the left operand, then the one of the weights."""
    left, right = (first, second) if is_single(first) else (second, first)
    if not is_single(left):
        refuse("both scales have several elements")
    check_columns(right, columns)
    return left, right


def unsigned(array: Any) -> Any:
    """The same numbers in uint8, 128 larger. The product of signed weights overflows on many processors: pairs of
    them are added in 16 bits."""
    return (array.astype("int16") + 128).astype("uint8")
