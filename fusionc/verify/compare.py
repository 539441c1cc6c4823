"""Whether one output value is the same as another, up to rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fusionc.verify.joints import Joint, blocks_of

Numerics = Literal["bitwise", "rounding", "approximate"]


@dataclass(frozen=True)
class Tolerance:
    """The condition `|a - b| <= absolute * scale + relative * |b|`, where b is the reference and
    scale the largest finite |b|. Slices with small values have smaller limits (see `_limit`).

    `absolute` may grow up to `widest` if the reference itself amplifies rounding that much. In
    addition, an error in a slice may be at most `widest` times the largest value of the slice.
    absolute + relative, and widest + relative, stay below 0.01 for types that can represent 1 %, so
    an output that is scaled by 1.01 is never accepted.
    """

    absolute: float
    relative: float
    widest: float
    place: float = 2.0**-10  # a unit in the last place of 1; by default that of float16


TOLERANCES = {
    "float64": Tolerance(1e-7, 1e-7, 8e-3, 2.0**-52),
    "float32": Tolerance(1e-4, 1e-3, 8e-3, 2.0**-23),
    "float16": Tolerance(4e-3, 4e-3, 5e-3),
    "bfloat16": Tolerance(2e-2, 2e-2, 2e-2),
    "float8_e4m3fn": Tolerance(2e-2, 2e-2, 2e-2),
    "float8_e4m3fnuz": Tolerance(2e-2, 2e-2, 2e-2),
    "float8_e5m2": Tolerance(2e-2, 2e-2, 2e-2),
    "float8_e5m2fnuz": Tolerance(2e-2, 2e-2, 2e-2),
}
_PARTS_OF_COMPLEX = {"complex64": "float32", "complex128": "float64"}

# A larger magnitude means infinity (masks are filled with the lowest number). As the scale, it
# would hide all other elements.
_LARGEST_SCALE = {"float64": 1e300, "float32": 1e30, "bfloat16": 1e30, "float16": 3e4}
_SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "bfloat16": 2.0**-126,
    "float16": 2.0**-14,
}
SLICE = 16  # a slice with at least this many elements is judged by itself
# a slice's tolerance is at least the output's tolerance divided by _PART, and at least _PLACES
# units in the last place of the output's largest value
_PART = 50
_PLACES = 16
_LIKE = 8  # if a column is this many times as large as the next smaller one, it is of another kind
_FEW = 4  # columns of one kind need at least this many elements to be judged
_NOT_FINITE = (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf))


class Bounds(NamedTuple):
    """A condition that the user sets: `|a - b| <= absolute + relative * |b|`, where b is the
    reference.
    """

    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"compared with atol {self.absolute:g} and rtol {self.relative:g}"


@dataclass(frozen=True)
class Mismatch:
    """Why two values are not the same."""

    reason: str
    error: float | None = None  # the largest |a - b|; None if a type, a shape or a NaN differs
    within_widest: bool = False  # even the widest tolerance would accept the value


@dataclass(frozen=True)
class Yardstick:
    """The precision with which an output is compared."""

    numerics: Numerics = "rounding"  # what the least precise of the judged rewrites claims
    # the scale of the output on other inputs: on the judged inputs all values may be near 0
    least_scale: float = 0.0
    # the least precise float type between the inputs and the output; "" if it is the output's own
    # type
    precision: str = ""
    joints: tuple[Joint, ...] = ()  # where the output is concatenated from parts
    bounds: Bounds | None = None  # replaces the tolerance of the type

    def kind(self, name: str) -> str:
        """The type whose tolerance applies to elements of this type."""
        return max(name, self.precision or name, key=lambda one: TOLERANCES[one].absolute)

    def scale(self, values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        """The scales for the elements of an array of this type: a single scale, or, if the array is
        concatenated from parts, for each element the scale of its part.

        Subnormal numbers have few bits, and some processors flush them to 0. Therefore no scale is
        below the smallest normal number.
        """
        whole = max(scale_of(values, name), self.least_scale, _SMALLEST_NORMAL.get(name, 0.0))
        if self.least_scale or not (blocks := blocks_of(self.joints, values.shape)):
            return np.asarray(whole)
        scales = np.empty(values.shape)
        for block in blocks:
            scales[block] = max(scale_of(values[block], name), TOLERANCES[name].place * whole)
        return scales


USUAL = Yardstick()


def tolerance_of(name: str, numerics: Numerics) -> Tolerance:
    """The tolerance for a type. `numerics` is what the least precise of the judged rewrites claims:
    whether it is bitwise equal or rounds differently.

    Bitwise rewrites get a smaller tolerance if the type allows that, but not zero, because
    onnxruntime multiplies by a constant matrix in another order than by a computed one.
    """
    usual = TOLERANCES[name]
    if numerics == "approximate":
        return replace(usual, absolute=usual.widest)
    if numerics == "bitwise" and name in ("float64", "float32"):
        return replace(usual, absolute=usual.absolute / 10, relative=usual.relative / 10)
    return usual


def compare(reference: Any, candidate: Any, yardstick: Yardstick = USUAL) -> Mismatch | None:
    """Why `candidate` is another value than `reference`. None if they are equal up to the tolerance
    of their type.

    A value is what onnxruntime returns: an array, a list of values (sequence), a dict (map), or
    None (empty optional).
    """
    if reference is None or candidate is None:
        if reference is candidate:
            return None
        return Mismatch(
            "the reference has no value, and the candidate has one"
            if reference is None
            else "has no value"
        )
    if isinstance(reference, Mapping):
        return _compare_maps(reference, candidate, yardstick)
    if isinstance(reference, Sequence) and not isinstance(reference, str):
        return _compare_sequences(reference, candidate, yardstick)
    if isinstance(candidate, Mapping) or (
        isinstance(candidate, Sequence) and not isinstance(candidate, str)
    ):
        return Mismatch("is a sequence or a map, and the reference gives a tensor")
    return _compare_arrays(np.asarray(reference), np.asarray(candidate), yardstick)


def largest_magnitude(value: Any) -> float:
    """The scale of a value: its largest finite magnitude, 0 if it holds no floats."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return max((largest_magnitude(item) for item in value), default=0.0)
    array = np.asarray(value)
    name = _PARTS_OF_COMPLEX.get(array.dtype.name, array.dtype.name)
    if name not in TOLERANCES:
        return 0.0
    return scale_of(as_float64(array), name)


def tells_something(value: Any) -> bool:
    """Whether comparing a value can show a difference. An array of floats must be empty or have at
    least one finite element.
    """
    array = value if isinstance(value, np.ndarray) else None
    if array is None or array.dtype.name not in TOLERANCES or not array.size:
        return True
    return bool(np.isfinite(as_float64(array)).any())


def largest_difference(reference: Any, other: Any) -> float:
    """The largest |a - b| over all floats of two values with the same structure. Elements that are
    not finite are left out.
    """
    if isinstance(reference, Mapping):
        reference = list(reference.values())
        other = list(other.values())
    if isinstance(reference, Sequence) and not isinstance(reference, str):
        return max(
            (largest_difference(a, b) for a, b in zip(reference, other, strict=False)), default=0.0
        )
    a = np.asarray(reference)
    b = np.asarray(other)
    if _PARTS_OF_COMPLEX.get(a.dtype.name, a.dtype.name) not in TOLERANCES or a.shape != b.shape:
        return 0.0
    x = as_float64(a)
    y = as_float64(b)
    finite = np.isfinite(x) & np.isfinite(y)
    return float(np.abs(x[finite] - y[finite]).max(initial=0.0))


def unequal(
    reference: NDArray[Any], candidate: NDArray[Any], yardstick: Yardstick = USUAL
) -> NDArray[np.bool_]:
    """For each pair of elements of two arrays of the same shape and type, whether it differs by
    more than the yardstick accepts.
    """
    name = _PARTS_OF_COMPLEX.get(reference.dtype.name, reference.dtype.name)
    if name not in TOLERANCES:
        return np.asarray(reference != candidate)
    a = as_float64(candidate)
    b = as_float64(reference)
    if yardstick.bounds is None:
        tolerance = tolerance_of(yardstick.kind(name), yardstick.numerics)
        error, slack = _error_and_slack(a, b, tolerance.relative)
        excess = error - slack
        wrong = excess > _limit(excess, b, name, yardstick.scale(b, name), tolerance)
    else:
        wrong = _out_of_bounds(a, b, yardstick.bounds)[0]
    for _, is_such in _NOT_FINITE:
        wrong |= is_such(a) != is_such(b)
    return np.asarray(wrong.any(axis=-1) if reference.dtype.kind == "c" else wrong)


def as_float64(array: NDArray[Any]) -> NDArray[np.float64]:
    """The array in float64. A complex number becomes two numbers along a new last axis."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    with np.errstate(invalid="ignore"):  # numpy warns of a signalling NaN
        return array.astype(np.float64)


def scale_of(values: NDArray[np.float64], name: str) -> float:
    """The scale of numbers of this type: the largest magnitude that is not near the end of the
    range of the type.
    """
    return float(_usable_magnitudes(values, name).max(initial=0.0))


def _usable_magnitudes(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    magnitudes = np.abs(values)
    usable = magnitudes <= _LARGEST_SCALE.get(name, np.inf)  # false for NaN, too
    return np.where(usable & np.isfinite(magnitudes), magnitudes, 0.0)


def _compare_maps(
    reference: Mapping[Any, Any], candidate: Any, yardstick: Yardstick
) -> Mismatch | None:
    if not isinstance(candidate, Mapping):
        return Mismatch("is not a map, and the reference gives one")
    if list(reference) != list(candidate):
        return Mismatch(
            f"has the keys {_shortened(candidate)}, the reference has {_shortened(reference)}"
        )
    values = list(reference.values())
    # maps hold float32, as Python floats
    if values and all(isinstance(value, float) for value in values):
        theirs = list(candidate.values())
        return _compare_arrays(
            np.array(values, np.float32), np.array(theirs, np.float32), yardstick
        )
    return _compare_sequences(values, list(candidate.values()), yardstick)


def _compare_sequences(
    reference: Sequence[Any], candidate: Any, yardstick: Yardstick
) -> Mismatch | None:
    if not isinstance(candidate, Sequence) or isinstance(candidate, str):
        return Mismatch("is not a sequence, and the reference gives one")
    if len(reference) != len(candidate):
        return Mismatch(f"has {len(candidate)} elements, the reference has {len(reference)}")
    mismatches = [compare(*pair, yardstick) for pair in zip(reference, candidate, strict=True)]
    different = [(index, mismatch) for index, mismatch in enumerate(mismatches) if mismatch]
    if not different:
        return None
    errors = [mismatch.error for _, mismatch in different if mismatch.error is not None]
    error = max(errors) if len(errors) == len(different) else None
    index, first = different[0]
    return Mismatch(
        f"element {index}: {first.reason}",
        error,
        all(mismatch.within_widest for _, mismatch in different),
    )


def _compare_arrays(
    reference: NDArray[Any], candidate: NDArray[Any], yardstick: Yardstick
) -> Mismatch | None:
    if reference.dtype.name != candidate.dtype.name and not (
        reference.dtype.kind in "OUS" and candidate.dtype.kind in "OUS"
    ):
        return Mismatch(
            f"has the type {candidate.dtype.name}, the reference has {reference.dtype.name}"
        )
    if reference.shape != candidate.shape:
        return Mismatch(
            f"has the shape {list(candidate.shape)}, the reference has {list(reference.shape)}"
        )
    name = _PARTS_OF_COMPLEX.get(reference.dtype.name, reference.dtype.name)
    if name in TOLERANCES:
        return (
            None
            if same_bits(reference, candidate)
            else _compare_floats(reference, candidate, name, yardstick)
        )
    unequal = np.asarray(reference != candidate)
    if not unequal.any():
        return None
    place = _first(unequal)
    return Mismatch(
        f"{int(unequal.sum())} of {unequal.size} elements differ, first at {list(place)}: "
        f"{candidate[place]!s} instead of {reference[place]!s}"
    )


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two arrays are equal bit by bit. Usually they are, and this test takes only a small
    part of the time and memory of measuring errors.
    """
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def _compare_floats(
    reference: NDArray[Any], candidate: NDArray[Any], name: str, yardstick: Yardstick
) -> Mismatch | None:
    a = as_float64(candidate)
    b = as_float64(reference)
    for what, is_such in _NOT_FINITE:
        moved = is_such(a) != is_such(b)
        if moved.any():
            place = _first(moved)
            return Mismatch(
                f"{what} at other places than in the reference ({int(moved.sum())} of "
                f"{moved.size}), "
                f"first at {list(place)}: {a[place]:.6g} instead of {b[place]:.6g}"
            )
    if yardstick.bounds is not None:
        return _compare_to_bounds(a, b, yardstick.bounds)
    kind = yardstick.kind(name)
    tolerance = tolerance_of(kind, yardstick.numerics)
    scale = yardstick.scale(b, name)
    error, slack = _error_and_slack(a, b, tolerance.relative)
    excess = error - slack
    limit = _limit(excess, b, name, scale, tolerance)
    wrong = excess > limit
    if not wrong.any():
        return None
    place = tuple(
        int(i) for i in np.unravel_index(int(np.where(wrong, excess, -1.0).argmax()), excess.shape)
    )
    largest = float(np.broadcast_to(scale, b.shape)[place])
    return Mismatch(
        f"{int(wrong.sum())} of {wrong.size} elements differ by more than the tolerance of {kind}, "
        f"worst at {list(place)}: {a[place]:.6g} instead of {b[place]:.6g}, "
        f"which is off by {error[place]:.2g}; {limit[place] + slack[place]:.2g} is accepted, "
        f"the largest value is {largest:.3g}",
        float(error[wrong].max()),
        not bool((error > tolerance.widest * scale + slack).any()),
    )


def _error_and_slack(
    a: NDArray[Any], b: NDArray[Any], relative: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The error |a - b|, 0 if b is not finite, and the part that the relative tolerance allows."""
    finite = np.isfinite(b)
    error = np.abs(np.subtract(a, b, where=finite, out=np.zeros_like(b)))
    return error, relative * np.abs(np.where(finite, b, 0.0))


def _out_of_bounds(
    a: NDArray[Any], b: NDArray[Any], bounds: Bounds
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Whether each element is out of the user's bounds, and its error."""
    error, slack = _error_and_slack(a, b, bounds.relative)
    return np.asarray(error > bounds.absolute + slack), error


def _compare_to_bounds(a: NDArray[Any], b: NDArray[Any], bounds: Bounds) -> Mismatch | None:
    wrong, error = _out_of_bounds(a, b, bounds)
    if not wrong.any():
        return None
    place = _first(error == error[wrong].max())
    return Mismatch(
        f"{int(wrong.sum())} of {wrong.size} elements are out of bounds, worst at {list(place)}: "
        f"{a[place]:.6g} instead of {b[place]:.6g}, which is off by {error[place]:.2g}",
        float(error[place]),
    )


def _limit(
    excess: NDArray[np.float64],
    b: NDArray[np.float64],
    name: str,
    scale: NDArray[np.float64],
    tolerance: Tolerance,
) -> NDArray[np.float64]:
    """The error that each element may have, in addition to what the relative tolerance allows.
    `excess` is its actual error.

    The largest values of an output, such as corners of boxes, would hide errors in slices of small
    values, such as scores. Therefore the error in a slice of many elements is also limited: to the
    share `widest` of the slice's own largest value, or to a part of the usual tolerance if that is
    larger. If there are few rows, columns of similar magnitude count as one slice.
    """
    usual = tolerance.absolute * scale
    least = np.minimum(usual, np.maximum(usual / _PART, _PLACES * tolerance.place * scale))
    if scale.ndim:  # a part whose values are tiny compared to others is not divided into slices
        least = np.minimum(
            usual, np.maximum(least, tolerance.absolute * tolerance.place * scale.max())
        )
    if tolerance.absolute >= tolerance.widest or not (excess > least).any():
        return np.broadcast_to(usual, b.shape)
    limit = np.broadcast_to(usual, b.shape)
    magnitudes = _usable_magnitudes(b, name)
    for axis in (axis for axis, count in enumerate(b.shape) if 1 < count <= b.size // SLICE):
        others = tuple(other for other in range(b.ndim) if other != axis)
        limit = np.minimum(limit, tolerance.widest * magnitudes.max(others, keepdims=True))
    if not scale.ndim:
        limit = np.minimum(limit, tolerance.widest * _largest_in_few_rows(magnitudes))
    return np.asarray(np.maximum(limit, least))


def _largest_in_few_rows(magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each element, the largest magnitude in the columns that are like its own (see
    `_largest_in_like_columns`). The columns are taken along each of the last two axes, if a column
    has fewer elements than a slice. Infinity for elements without such columns.
    """
    largest = np.full((1,) * magnitudes.ndim, np.inf)
    for axis in range(max(magnitudes.ndim - 2, 0), magnitudes.ndim):
        count = magnitudes.shape[axis]
        if count > 1 and 1 < magnitudes.size // count < SLICE:
            largest = np.minimum(largest, _largest_in_like_columns(magnitudes, axis))
    return largest


def _largest_in_like_columns(magnitudes: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Divide the columns of an axis into groups of similar magnitude. Return for each column the
    largest value of its group. Infinity for the group with the largest values, and for groups with
    too few elements to judge.
    """
    others = tuple(other for other in range(magnitudes.ndim) if other != axis)
    sizes = magnitudes.max(others, keepdims=True)
    order = np.argsort(sizes, axis=None, kind="stable")
    ranked = sizes.reshape(-1)[order]
    begins = np.flatnonzero(ranked[1:] > _LIKE * ranked[:-1]) + 1
    largest = np.full(ranked.shape, np.inf)
    for group in np.split(np.arange(ranked.size), begins)[:-1]:
        if group.size * (magnitudes.size // ranked.size) >= _FEW:
            largest[group] = ranked[group[-1]]
    by_column = np.empty_like(largest)
    by_column[order] = largest
    return by_column.reshape(sizes.shape)


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(mask.argmax()), mask.shape))


def _shortened(keys: Mapping[Any, Any]) -> str:
    text = ", ".join(map(str, keys))
    return text if len(text) <= 80 else text[:77] + "..."
