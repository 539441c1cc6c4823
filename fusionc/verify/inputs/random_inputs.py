"""Seeded values for the inputs of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.verify.inputs.drawn_values import WORDS, FloatStyle, draw, draw_floats
from fusionc.verify.inputs.formulas import Sizes
from fusionc.verify.inputs.grid_ties import at_ties
from fusionc.verify.inputs.size_choices import shape_at
from fusionc.verify.inputs.value_ranges import ValueRange
from fusionc.verify.interface import Port

_LARGEST_COUNT = 4


@dataclass(frozen=True)
class Style:
    """A way to draw values. If the uses of an input do not allow all values of the style, only
    allowed values are drawn.

    floats: "normal" is normal(0, 1). "positive" is from 0.1 to 1.1. "mixed" has magnitudes from
    1e-3 to 1e3, with signed zeros, denormals and ties of rounding among them. "nonfinite" is normal
    with a few NaN and Inf, and "nan" with a few NaN. "ties" are numbers that a nearby Quantize or
    Round rounds up or down depending on their last bit.

    integers: "wide" are small integers unless a use limits them, "binary" are 0 and 1, "ones" and
    "zeros" are all alike, and "ends" are the ends of the range. "batch" are shapes that begin with
    the first size of another input.

    guesses: whether values that neither a limit nor another operand determines are guessed from
    names and uses (0 and 1, a few numbers from 0 on, or numbers above 0). If False, such values
    have both signs.
    """

    floats: FloatStyle = "normal"
    integers: Literal["wide", "binary", "ones", "zeros", "ends", "batch"] = "wide"
    guesses: bool = True

    @property
    def is_finite(self) -> bool:
        """Whether the values contain neither NaN nor infinities."""
        return self.floats not in ("nonfinite", "nan")


def make_feeds(
    ports: Iterable[Port], ranges: Mapping[str, ValueRange], sizes: Sizes, style: Style, seed: int
) -> dict[str, Any]:
    """A value for each input."""
    feeds: dict[str, Any] = {}
    every = list(ports)
    for number, port in enumerate(every):
        rng = np.random.default_rng((seed, number))
        if port.optional and seed % 2 == 1:
            feeds[port.name] = None
        elif port.kind == "sequence":
            feeds[port.name] = [
                _tensor(port, ranges[port.name], sizes, style, rng) for _ in range(2)
            ]
        elif _is_switch(port, sizes) and style.integers in ("wide", "ends"):
            # A switch is on for every second seed. Of two neighbouring inputs that are switches,
            # exactly one is on.
            feeds[port.name] = np.full(shape_at(port, sizes), (seed + number) % 2 == 0)
        elif port.kind == "map":
            feeds[port.name] = _map(port, style, rng)
        else:
            feeds[port.name] = _tensor(port, ranges[port.name], sizes, style, rng)
    if style.integers == "batch":
        feeds.update(_with_batch(every, ranges, sizes, feeds))
    return feeds


def make_several(
    ports: Iterable[Port],
    ranges: Mapping[str, ValueRange],
    sizes: Sizes,
    style: Style,
    like: Mapping[str, Any],
    seed: int,
    several: int,
) -> list[dict[str, Any]]:
    """`several` feeds that resemble the given ones, drawn at once. Values that determine sizes, or
    which nodes run, stay unchanged.

    The list is empty if all values would stay unchanged.
    """
    drawn: dict[str, NDArray[Any]] = {}
    for number, port in enumerate(ports):
        allowed = ranges[port.name]
        is_fixed = (
            allowed.fit is not None or allowed.shape or allowed.least or _is_switch(port, sizes)
        )
        if port.kind == "tensor" and not port.optional and not is_fixed:
            stacked = replace(port, dims=(several, *shape_at(port, sizes)))
            drawn[port.name] = _tensor(
                stacked, allowed, sizes, style, np.random.default_rng((seed, number))
            )
    return [
        {**like, **{name: np.asarray(values[at]) for name, values in drawn.items()}}
        for at in range(several if drawn else 0)
    ]


def _with_batch(
    ports: Iterable[Port], ranges: Mapping[str, ValueRange], sizes: Sizes, feeds: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    shapes = [port.name for port in ports if ranges[port.name].shape or ranges[port.name].least]
    batch = next(
        (
            shape_at(port, sizes)[0]
            for port in ports
            if port.name not in shapes and shape_at(port, sizes)
        ),
        1,
    )
    for name in shapes:
        if isinstance(feeds[name], np.ndarray) and feeds[name].ndim == 1:
            others = range(2, len(feeds[name]) + 1)
            yield name, np.array([batch, *others][: len(feeds[name])], feeds[name].dtype)


def has_choice(ports: Iterable[Port], sizes: Sizes) -> bool:
    """Whether an input decides which nodes run: an input that may be left out, or a switch."""
    return any(port.optional or _is_switch(port, sizes) for port in ports)


def _is_switch(port: Port, sizes: Sizes) -> bool:
    is_truth = port.kind == "tensor" and _dtype(port.element_type).kind == "b"
    return is_truth and bool(np.prod(shape_at(port, sizes)) == 1)


def are_guessed(ports: Iterable[Port], ranges: Mapping[str, ValueRange]) -> bool:
    """Whether the values of an input are guessed from names and uses."""
    return any(_is_guessed(port, ranges[port.name]) for port in ports if port.kind != "map")


def _is_guessed(port: Port, allowed: ValueRange) -> bool:
    if (
        allowed.whole
        or allowed.limits
        or allowed.fit is not None
        or allowed.least
        or _is_surely_mask(port, allowed)
    ):
        return False
    dtype = _dtype(port.element_type)
    return (dtype.kind == "i" and dtype.itemsize > 2) or (
        dtype.kind in "fV" and (_is_mask(port) or allowed.positive)
    )


def has_floats(ports: Iterable[Port]) -> bool:
    """Whether extreme values of floats make a difference for an input."""
    return any(_dtype(port.element_type).kind in "fV" for port in ports)


def _tensor(
    port: Port, allowed: ValueRange, sizes: Sizes, style: Style, rng: np.random.Generator
) -> NDArray[Any]:
    shape = shape_at(port, sizes)
    dtype = _dtype(port.element_type)
    if allowed.fit is not None and style.integers in ("wide", "ends") and dtype.kind not in "OUSb":
        fitting = allowed.fit.values(shape, sizes, rng)
        if fitting is not None:
            return fitting.astype(dtype)

    def floats() -> NDArray[np.float64]:
        return _floats(shape, dtype, allowed, style, rng)

    def integers() -> NDArray[Any]:
        wanted = _demanded(shape, allowed, sizes, style, rng)
        return _free_integers(port, shape, dtype, allowed, style, rng) if wanted is None else wanted

    holds_integers = allowed.whole or (style.guesses and _is_mask(port))
    holds_floats = dtype.kind == "c" or not holds_integers
    return draw(
        dtype,
        shape,
        rng,
        floats if holds_floats else integers,
        integers,
        lambda: _truth(shape, style, rng),
    )


def _floats(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    allowed: ValueRange,
    style: Style,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    if allowed.least:  # the scales of a Resize
        return rng.integers(1, 3, shape).astype(np.float64)
    is_positive = allowed.positive and style.guesses
    if style.floats == "ties" and allowed.grids and not is_positive:
        return at_ties(allowed.grids, shape, dtype, rng)
    return draw_floats("positive" if is_positive else style.floats, dtype, shape, rng)


def _demanded(
    shape: tuple[int, ...],
    allowed: ValueRange,
    sizes: Sizes,
    style: Style,
    rng: np.random.Generator,
) -> NDArray[Any] | None:
    """Integers that meet the requirements of an input's uses or of the style. None without
    requirements.
    """
    limit = allowed.limit(sizes)
    if allowed.shape and not allowed.least:
        wanted = np.ones(shape, np.int64)
        if len(shape) == 1:
            wanted[-1:] = -1
        return wanted
    if style.integers == "zeros":
        return np.full(shape, allowed.least)
    if style.integers == "ones":
        return np.full(shape, 1 if limit is None or limit > 1 else allowed.least)
    if allowed.least:
        return rng.integers(1, max(2, min(_LARGEST_COUNT, limit or _LARGEST_COUNT) + 1), shape)
    if limit is None:
        return None
    if style.integers == "ends":
        return rng.choice([0, limit - 1], shape)
    return rng.integers(0, limit, shape)


def _free_integers(
    port: Port,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    allowed: ValueRange,
    style: Style,
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Integers without limits: guessed from names and uses, or else small."""
    if not style.guesses and _is_guessed(port, allowed):
        return rng.integers(-9, 10, shape)
    if _is_mask(port) or style.integers == "binary" or (allowed.mask and dtype.itemsize > 2):
        return _truth(shape, style, rng).astype(np.int64)
    if allowed.whole:
        return rng.integers(0, 2, shape)
    if dtype.itemsize <= 2 and dtype.kind in "iu":
        return _pixels(shape, dtype, style, rng)
    if dtype.kind not in "iuf":  # 2 and 4 bits
        return rng.integers(0, 2, shape)
    return rng.integers(0, 10, shape)


def _pixels(
    shape: tuple[int, ...], dtype: np.dtype[Any], style: Style, rng: np.random.Generator
) -> NDArray[Any]:
    """Pixels and quantized values."""
    info = np.iinfo(dtype)
    if style.integers == "ends":
        return rng.choice([info.min, info.max], shape)
    if dtype.itemsize == 1:
        return _all_of(info.min, info.max, shape, rng)
    return rng.integers(info.min, info.max + 1, shape)


def _all_of(
    least: int, most: int, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[Any]:
    """All numbers from the smallest to the largest allowed one, in random order, if they fit into
    the shape.
    """
    size = prod(shape)
    whole, rest = divmod(size, most - least + 1)
    numbers = np.arange(least, most + 1)
    return rng.permutation(
        np.concatenate([np.tile(numbers, whole), rng.permutation(numbers)[:rest]])
    ).reshape(shape)


def has_grids(ranges: Mapping[str, ValueRange]) -> bool:
    """Whether the last bit of an input may decide a result."""
    return any(allowed.grids for allowed in ranges.values())


def _truth(shape: tuple[int, ...], style: Style, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mostly True. The first element of every row is True, so that no mask hides a whole row."""
    if style.integers in ("ones", "zeros"):
        return np.full(shape, style.integers == "ones")
    values = np.asarray(rng.random(shape) < 0.75)
    if values.ndim and values.size and values.shape[-1] > 1:
        values[..., 0] = True
    return values


def _map(port: Port, style: Style, rng: np.random.Generator) -> dict[Any, Any]:
    keys: tuple[Any, ...] = (
        ("a", "b", "c") if port.key_type == onnx.TensorProto.STRING else (0, 1, 2)
    )
    if _dtype(port.element_type).kind in "OUS":
        return {key: WORDS[key_number] for key_number, key in enumerate(keys)}
    numbers = rng.standard_normal(len(keys)) if style.floats != "zeros" else np.zeros(len(keys))
    whole = _dtype(port.element_type).kind in "iu"
    return {
        key: round(abs(number)) if whole else float(number)
        for key, number in zip(keys, numbers, strict=True)
    }


def _is_surely_mask(port: Port, allowed: ValueRange) -> bool:
    """Whether both the name and the use show that an input is a mask. Such an input must be 0 and
    1, because models compute noise from masks with other numbers.
    """
    return allowed.mask and _is_mask(port)


def _is_mask(port: Port) -> bool:
    return re.search("mask|segment|token_type", port.name, re.IGNORECASE) is not None


def _dtype(element_type: int) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
