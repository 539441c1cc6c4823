"""Draw input values that reveal a wrong rewrite: values of different magnitudes and signs, zeros,
extremes and NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.model.graph import Edge
from fusionc.model.tensors import numpy_type
from fusionc.shapes.expressions import atoms, polynomial_of
from fusionc.verify.inputs.drawn_values import FloatStyle, draw, draw_floats, fits_numpy

DimensionSizes = Mapping[object, int]
_DIFFERENT_SIZES = (2, 3, 5, 4)  # sizes for dimensions that may differ
_EQUAL_SIZES = (3, 8, 40, 1)  # sizes for all unknown dimensions, in case they must be equal
_MAX_ELEMENTS = 1 << 24  # elements of all inputs together


@dataclass(frozen=True)
class ValueStyle:
    """How values are drawn: floats as `floats` says, integers between `low` and `high`."""

    floats: str
    low: int
    high: int


ORDINARY = ValueStyle("ordinary", 0, 2)
MIXED = ValueStyle("mixed magnitudes", -3, 10)
ZEROS = ValueStyle("zeros", 0, 2)
NOT_FINITE = ValueStyle("NaN and Inf", 0, 2)
_FLOATS: dict[str, FloatStyle] = {
    ORDINARY.floats: "normal",
    MIXED.floats: "mixed",
    ZEROS.floats: "zeros",
    NOT_FINITE.floats: "nonfinite",
}
# styles with other integers, for models that do not run with ORDINARY
NARROWER = (ValueStyle("ordinary", 1, 3), ValueStyle("ordinary", 0, 1))


def likely_sizes(inputs: Sequence[Edge]) -> Iterator[DimensionSizes]:
    """Sizes for the symbols and unknown dimensions of inputs, the most likely ones first."""
    unknown = dict.fromkeys(
        atom for value in inputs for dim in _dimensions(value) for atom in _unknown(dim)
    )
    if unknown:
        yield {
            atom: _DIFFERENT_SIZES[index % len(_DIFFERENT_SIZES)]
            for index, atom in enumerate(unknown)
        }
    for size in _EQUAL_SIZES if unknown else (1,):
        yield dict.fromkeys(unknown, size)


def draw_feeds(
    inputs: Sequence[Edge], sizes: DimensionSizes, style: ValueStyle, seed: int, is_positive: bool
) -> dict[str, Any] | None:
    """Values for all inputs; None if a type or rank is unknown, or if there would be too many
    elements.

    With `is_positive`, integers are at least 1.
    """
    return next(draw_several(inputs, sizes, style, seed, is_positive, None), None)


def draw_several(
    inputs: Sequence[Edge],
    sizes: DimensionSizes,
    style: ValueStyle,
    seed: int,
    is_positive: bool,
    number: int | None,
) -> Iterator[dict[str, Any]]:
    """`number` sets of values for all inputs, drawn at once; one set if `number` is None. Yields
    nothing if draw_feeds returns None.
    """
    if is_positive:
        style = ValueStyle(style.floats, 1, max(style.high, 3))
    leading_dims = () if number is None else (number,)
    shapes = {value: (*leading_dims, *_shape(value, sizes)) for value in inputs}
    if not all(map(_is_typed, inputs)) or not _can_be_drawn(shapes.values()):
        return
    rng = np.random.default_rng(seed)
    drawn_values = {v.name: _tensor(v.known_type.elem_type, shapes[v], style, rng) for v in shapes}
    if number is None:
        yield drawn_values
    for index in range(number or 0):
        yield {name: np.asarray(values[index]) for name, values in drawn_values.items()}


def _shape(value: Edge, sizes: DimensionSizes) -> Sequence[int]:
    return [_size(value, axis, sizes) for axis in range(len(_dimensions(value)))]


def _is_typed(value: Edge) -> bool:
    return bool(value.known_type.elem_type) and value.known_type.shape is not None


def _can_be_drawn(shapes: Collection[Sequence[int]]) -> bool:
    return sum(map(prod, shapes)) <= _MAX_ELEMENTS and all(map(fits_numpy, shapes))


def _dimensions(value: Edge) -> Sequence[Any]:
    return value.known_type.shape or ()


def _unknown(dim: Any) -> Iterator[object]:
    if isinstance(dim, str):
        yield from atoms(dim)


def _size(value: Edge, axis: int, sizes: DimensionSizes) -> int:
    """The size of a dimension: a number, a symbol, or a sum of products of symbols. A dimension
    without a name may have any size.
    """
    dim = _dimensions(value)[axis]
    size = None if dim is None else polynomial_of(dim).value(sizes)
    return max(sizes.values(), default=3) if size is None else max(size, 0)


def _tensor(
    elem_type: int, shape: Sequence[int], style: ValueStyle, rng: np.random.Generator
) -> NDArray[Any]:
    dtype = numpy_type(elem_type)
    assert dtype is not None
    return draw(
        dtype,
        shape,
        rng,
        lambda: draw_floats(_FLOATS[style.floats], dtype, shape, rng),
        lambda: _whole(dtype, shape, style, rng),
        lambda: np.asarray(rng.random(shape) < 0.5),
    )


def _whole(
    dtype: np.dtype[Any], shape: Sequence[int], style: ValueStyle, rng: np.random.Generator
) -> NDArray[Any]:
    if dtype.itemsize <= 2 and dtype.kind in "iu" and style.low < 1:  # pixels, quantized values
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, shape)
    low = max(style.low, 0) if "uint" in dtype.name else style.low
    return rng.integers(low, max(low + 1, style.high), shape)
