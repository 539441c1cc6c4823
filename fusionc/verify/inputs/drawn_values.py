"""Values of any element type, drawn in one of several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fusionc.verify.inputs.special_floats import NOT_FINITE, mixed_magnitudes, sprinkled

WORDS = ("a", "bc", "def", "the quick fox", "Zürich", "", "42")
FloatStyle = Literal["normal", "positive", "ones", "zeros", "mixed", "nonfinite", "nan", "ties"]
_Shape = Sequence[int]
_MOST_COUNTED = 1 << 48


def draw(
    dtype: np.dtype[Any],
    shape: _Shape,
    rng: np.random.Generator,
    floats: Callable[[], NDArray[np.float64]],
    integers: Callable[[], NDArray[Any]],
    truths: Callable[[], NDArray[Any]],
) -> NDArray[Any]:
    """Elements of a type: text, or numbers drawn by one of these functions. `integers` also draws
    integers of 2 and 4 bits.
    """
    if dtype.kind in "OUS":
        return rng.choice(np.array(WORDS, dtype=object), shape)
    if dtype.kind == "b":
        return truths()
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            return (floats() + 1j * floats()).astype(dtype)
        return (floats() if is_float(dtype) else integers()).astype(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a floating-point type, including those that numpy lacks."""
    return dtype.kind == "f" or "float" in dtype.name


def draw_floats(
    style: FloatStyle, dtype: np.dtype[Any], shape: _Shape, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Random float64 numbers in a style of `Style`, whose magnitudes suit the type `dtype`. The
    style "ties" gives normally distributed numbers here.
    """
    if style == "positive":
        return rng.uniform(0.1, 1.1, shape)
    if style in ("zeros", "ones"):
        return np.full(shape, float(style == "ones"))
    normal = np.asarray(rng.standard_normal(shape))
    if style == "mixed":
        return mixed_magnitudes(normal, dtype, rng)
    if style == "nonfinite":
        return sprinkled(normal, NOT_FINITE, rng)
    if style == "nan":
        # No infinities: an infinity in the row of a NaN may become another NaN, which hides that
        # the first one was lost.
        return sprinkled(normal, (np.nan,), rng)
    return normal


def fits_numpy(shape: Iterable[int]) -> bool:
    """Whether numpy can create an array of this shape. numpy limits the product of all dimensions
    except 0, even for an array without elements.
    """
    return prod(filter(None, shape)) <= _MOST_COUNTED
