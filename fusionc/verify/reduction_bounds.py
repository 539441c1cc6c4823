"""How far the result of a reduction depends on the order of its elements.

Processors take them in other orders: one after the other, or in as many parts as a vector has
elements. So a sum of large numbers of both signs may be a number here and infinite there, and a
product that passes through infinity or 0 may be NaN in one order only. The table of all operators
that reduce is here; verification and the tests of kernels read it. A product of several values
counts too: rewrites associate it in other ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.operators.facts import Trait, names_with

Array = NDArray[Any]
Floats = NDArray[np.float64]
Attributes = Mapping[str, Any]
_PARTS = (1, 2, 4, 8, 16, 32, 64)  # the elements of a vector, several vectors at once
_MARGIN = 4  # in powers of two: an order between these comes by somewhat more
_OF_WHOLE_NUMBERS = names_with(Trait.KEEPS_WHOLE)
_Finish = Callable[[Floats, int], Floats]  # of a sum of that many elements


def spreads(
    op: str, attributes: Attributes, inputs: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """For each of the first outputs, how far its elements may be from those of another order.

    0 if every order gives the same, infinity if it may be anything: NaN, infinite, or another
    number. The operator is one of REDUCTIONS, its inputs are floats and axes, if there are any.
    """
    x = inputs[0]
    assert x is not None and x.dtype.kind == "f"
    with np.errstate(all="ignore"):
        found = REDUCTIONS[op](x, attributes, inputs[1:], outputs)
    pairs = zip(found, outputs, strict=True)
    if x.dtype != np.float16:
        return found
    is_whole = op in _OF_WHOLE_NUMBERS and bool((np.rint(x) == x).all())
    return [_of_half(spread, result, is_whole) for spread, result in pairs]


def spread_of_product(factors: Sequence[Array]) -> Floats:
    """Infinity if a product of floats, which broadcast, overflows or underflows on the way in one
    order and not in another; else 0, as rounding is small.
    """
    info = np.finfo(factors[0].dtype)
    powers = [_powers(factor) for factor in factors]
    lowest = sum(np.minimum(power, 0) for power in powers)
    highest = sum(np.maximum(power, 0) for power in powers)
    slack = 2 * len(factors) * float(info.eps)
    ways = np.asarray(lowest < info.minexp + slack), np.asarray(highest > info.maxexp - slack)
    tests = (np.isnan, np.isinf, lambda factor: factor == 0)
    has = [np.logical_or.reduce(np.broadcast_arrays(*map(test, factors))) for test in tests]
    same = _is_decided(
        has,
        ways,
        np.asarray(sum(powers)),
        (int(info.minexp) - int(info.nmant), int(info.maxexp)),
        1,
    )
    return np.where(same, 0.0, np.inf)


def _powers(x: Array) -> Floats:
    """The exponents of numbers, 0 for what is none or is 0."""
    wide = x.astype(np.float64)
    return np.asarray(np.log2(np.abs(np.where(np.isfinite(wide) & (wide != 0), wide, 1))))


def _of_half(spread: Floats, result: Array, is_whole: bool) -> Floats:
    """onnxruntime computes float16 in float32, and rounds what comes of it or goes on with it as it
    is.
    """
    size = np.abs(result.astype(np.float64))
    most = float(np.finfo(np.float16).max)
    is_exact = is_whole & (spread == 0) & (size <= 1 / float(np.finfo(np.float16).eps))
    return np.where(
        size >= most * (1 - 2**-10),
        np.inf,
        np.where(is_exact, 0, np.maximum(spread, size * 2**-11)),
    )


def _axes(x: Array, attributes: Attributes, more: Sequence[Array | None]) -> tuple[int, ...]:
    given = more[0] if more and more[0] is not None else attributes.get("axes", ())
    axes = tuple(int(axis) % x.ndim for axis in np.ravel(given))
    if axes or attributes.get("noop_with_empty_axes", 0):
        return axes
    return tuple(range(x.ndim))


class _Rows:
    """The elements of a reduction: those that are summed lie on the last axis, in the type of the
    computation.
    """

    def __init__(self, x: Array, axes: tuple[int, ...]) -> None:
        info = np.finfo(np.float64 if x.dtype.itemsize > 4 else np.float32)
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        moved = np.transpose(x, [*kept, *axes]).astype(info.dtype)
        self.count = math.prod(x.shape[axis] for axis in axes)
        self.elements = moved.reshape(*(x.shape[axis] for axis in kept), self.count)
        self.largest = float(info.max)
        self.exponents = (int(info.minexp), int(info.maxexp))
        self.digits = int(info.nmant) + 1
        self.rounding = float(info.eps) / 2
        # two have one order
        self.noise = self.rounding * np.sqrt(self.count) if self.count > 2 else 0.0
        self.slack = self.rounding * (self.count + 8)

    def has(self, test: Callable[[Array], Array]) -> Array:
        return np.asarray(test(self.elements).any(-1))


def _sum(rows: _Rows, terms: Array, finish: _Finish) -> Floats:
    """The error of a result of a sum, and infinity if one order overflows and another does not."""
    finite = np.isfinite(terms)
    wide = np.where(finite, terms, 0).astype(np.float64)
    unit = np.maximum(np.abs(wide).max(-1, keepdims=True, initial=0), np.finfo(np.float64).tiny)
    up, down = (np.maximum(sign * wide / unit, 0).sum(-1) for sign in (1, -1))
    unit = unit[..., 0]
    most = rows.largest / unit
    slack = rows.slack
    may_rise = up >= most * (1 - slack)
    may_fall = down >= most * (1 - slack)
    must_rise = up - down >= most * (1 + slack)
    must_fall = down - up >= most * (1 + slack)
    plus, minus, nan = ((test(terms)).any(-1) for test in (np.isposinf, np.isneginf, np.isnan))
    same = np.where(plus, ~may_fall, np.where(minus, ~may_rise, ~may_rise & ~may_fall))
    same |= ~plus & ~minus & ((must_rise & ~may_fall) | (must_fall & ~may_rise))
    same |= nan | (plus & minus)
    total = (up - down) * unit
    error = rows.noise * (up + down) * unit
    # what is summed exactly, such as a mask, may be a count that sizes come of
    if finish is _total:
        error = np.where(_is_exact(rows, wide, (up + down) * unit), 0, error)
    of_total = finish(total, rows.count)
    off = [np.abs(finish(total + sign * error, rows.count) - of_total) for sign in (1, -1)]
    off = [np.where(np.isnan(one), np.inf, one) for one in off]
    spread = np.where(error > 0, np.maximum(*off), 0)
    return np.where(same, np.where(plus | minus | nan | may_rise | may_fall, 0, spread), np.inf)


def _is_exact(rows: _Rows, terms: Floats, size: Floats) -> Floats:
    """Whether all partial sums are multiples of one power of two, and small enough multiples to
    need no rounding.
    """
    step = np.exp2(np.ceil(np.log2(np.maximum(size, np.finfo(np.float64).tiny))) - rows.digits)[
        ..., None
    ]
    return np.asarray((np.rint(terms / step) == terms / step).all(-1))


def _total(value: Floats, count: int) -> Floats:
    return value


def _mean(value: Floats, count: int) -> Floats:
    return value / count


def _product(rows: _Rows) -> Floats:
    """If the product is infinite and 0 on the way, the last elements are lost: NaN if there are
    both.
    """
    x = rows.elements.astype(np.float64)
    powers = _powers(x)
    lowest, highest = _on_the_way(powers)
    total = powers.sum(-1)
    (least, most) = rows.exponents
    overflows = highest >= most - _MARGIN
    underflows = lowest <= least + _MARGIN
    has = [rows.has(test) for test in (np.isnan, np.isinf, lambda e: e == 0)]
    same = _is_decided(has, (underflows, overflows), total, (least - rows.digits, most), _MARGIN)
    is_number = ~np.logical_or.reduce(has)
    size = np.exp2(np.where(same & is_number & ~overflows & ~underflows, total, -np.inf))
    is_exact = (np.rint(x) == x).all(-1) & (size <= 2.0**rows.digits)
    return np.where(same, np.where(is_exact, 0, rows.noise * size), np.inf)


def _is_decided(
    has: Sequence[Array],
    ways: tuple[Array, Array],
    total: Floats,
    exponents: tuple[int, int],
    margin: int,
) -> Array:
    """Whether a product is the same in all orders: given whether it has NaN, an infinity and 0
    among its factors, whether some order underflows and some overflows, its exponent, and those of
    the smallest and the largest number.
    """
    (nan, inf, zero) = has
    (underflows, overflows) = ways
    (least, most) = exponents
    same = np.where(zero, ~overflows, np.where(inf, ~underflows, ~overflows & ~underflows))
    is_nothing = total <= least - margin
    same |= ~zero & ~inf & ((~underflows & (total >= most + margin)) | (~overflows & is_nothing))
    return np.asarray(same | nan | (zero & inf))


def _on_the_way(powers: Floats) -> tuple[Floats, Floats]:
    """The least and the largest sum of exponents that an order of processors comes by: in 1 to 64
    parts, each of neighbours or of every so many elements, and then the parts.
    """
    lowest = np.zeros(powers.shape[:-1])
    highest = np.zeros(powers.shape[:-1])
    for parts in _PARTS:
        missing = -powers.shape[-1] % parts
        padded = np.concatenate([powers, np.zeros((*powers.shape[:-1], missing))], -1)
        of_neighbours = padded.reshape(*powers.shape[:-1], parts, -1)
        of_every_so_many = np.swapaxes(padded.reshape(*powers.shape[:-1], -1, parts), -1, -2)
        for order in (of_neighbours, of_every_so_many, of_every_so_many[..., ::-1]):
            for sums in (order.cumsum(-1), order.sum(-1, keepdims=True).cumsum(-2)):
                lowest = np.minimum(lowest, sums.min((-1, -2), initial=0))
                highest = np.maximum(highest, sums.max((-1, -2), initial=0))
    return lowest, highest


def _reduced(rule: Callable[[_Rows], Floats]) -> Any:
    """An operator whose only output are the results of rows."""

    def of(
        x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
    ) -> list[Floats]:
        axes = _axes(x, attributes, more)
        if not axes or not x.size:
            return [np.zeros(outputs[0].shape)]
        return [rule(_Rows(x, axes)).reshape(outputs[0].shape)]

    return of


def _extreme(rows: _Rows) -> Floats:
    """onnxruntime lets a NaN through or not, depending on its place; kernels let it through
    always.
    """
    return np.where(rows.has(np.isnan), np.inf, 0.0)


def _pooled(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The same for windows: onnxruntime goes through them in another order if its optimizers lay
    images out anew.
    """
    images = np.isnan(x).any(tuple(range(2, x.ndim)), keepdims=True)
    return [np.where(np.broadcast_to(images, outputs[0].shape), np.inf, 0.0)]


def _log_of_powers(rows: _Rows) -> Floats:
    """The logarithm of a sum that is rounded, and the largest element, which may cancel each other.
    Whether a NaN is the largest depends on its place.
    """
    largest = rows.elements.max(-1, initial=-np.inf).astype(np.float64)
    rounded = np.where(np.isfinite(largest), rows.noise + rows.rounding * np.abs(largest), 0)
    return np.where(np.isnan(largest), np.inf, rounded)


def _softmax(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The largest of a row is taken off before powers are summed: nothing overflows, nothing
    cancels. What is subnormal has few digits, and is 0 on processors that have none of it.
    """
    info = np.finfo(np.float64 if x.dtype.itemsize > 4 else np.float32)
    tiny = np.abs(outputs[0].astype(np.float64)) < info.tiny
    is_near = tiny & (outputs[0] != 0) | (
        x - _largest(x, attributes) > np.log(float(info.smallest_subnormal)) - 2
    )
    return [np.where(tiny & is_near, 2 * float(info.smallest_subnormal), 0)]


def _largest(x: Array, attributes: Attributes) -> Array:
    """The spread of the rows of a softmax, in all versions of the operator: up to opset 12, all
    axes from the named one on make a row.
    """
    axis = int(attributes.get("axis", -1)) % max(x.ndim, 1)
    return np.asarray(x.max(tuple(range(axis, x.ndim)), keepdims=True, initial=-np.inf))


def _log_softmax(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The same, but the place of a NaN or an infinity decides whether it makes all of a row NaN; a
    NaN stays one.
    """
    largest = _largest(x, attributes)
    return [np.where((largest < np.inf) | np.isnan(x), 0.0, np.inf)]


def _layer_normalized(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The variance is the mean of squared distances, or the mean of squares less the squared mean:
    if that cancels or overflows, each gives something else. With an infinity in a row, its mean is
    infinite or NaN.
    """
    axis = int(attributes.get("axis", -1)) % x.ndim
    rows = _Rows(x, tuple(range(axis, x.ndim)))
    if not rows.elements.size:
        return [np.zeros(output.shape) for output in outputs]
    wide = rows.elements.astype(np.float64)
    squares = (wide * wide).mean(-1)
    variance = wide.var(-1) + float(attributes.get("epsilon", 1e-5))
    of_mean = _sum(rows, rows.elements, _mean)
    of_variance = (rows.noise + rows.rounding) * squares
    overflows = ~(squares * rows.count < rows.largest * (1 - rows.slack))
    is_open = (overflows & np.isfinite(wide).all(-1)) | (of_variance >= variance)
    relative = of_variance / (2 * variance)
    inverse = 1 / np.sqrt(variance)
    normal = np.abs((wide - wide.mean(-1, keepdims=True)) * inverse[..., None])
    each = normal * relative[..., None] + (of_mean * inverse)[..., None]
    scale = more[0] if more and more[0] is not None else np.ones(())
    each = each.reshape(x.shape) * np.abs(scale.astype(np.float64))
    every = np.broadcast_to(is_open[..., None], wide.shape).reshape(x.shape)
    no_nan = ~rows.has(np.isnan) & rows.has(np.isinf)
    found = [
        np.where(every, np.inf, np.nan_to_num(each)),
        np.where(no_nan | is_open, np.inf, np.nan_to_num(of_mean)),
        np.where(is_open, np.inf, np.nan_to_num(relative * inverse)),
    ]
    return [
        spread.reshape(output.shape)
        for spread, output in zip(found[: len(outputs)], outputs, strict=True)
    ]


def _squares(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """Squares have one sign: their sum overflows in every order or in none."""
    return [np.zeros(output.shape) for output in outputs]


def _fourier(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """If a length is not a power of two, onnxruntime is off by a few roundings for every
    element.
    """
    bins = outputs[0].astype(np.float64)
    largest = np.abs(bins).max((-2, -1), keepdims=True, where=np.isfinite(bins), initial=0)
    return [np.broadcast_to(8 * np.finfo(x.dtype).eps * bins.shape[-2] * largest, bins.shape)]


# What every operator that reduces says of its outputs.
REDUCTIONS: dict[
    str, Callable[[Array, Attributes, Sequence[Array | None], Sequence[Array]], list[Floats]]
] = {
    "ReduceSum": _reduced(lambda rows: _sum(rows, rows.elements, _total)),
    "ReduceMean": _reduced(lambda rows: _sum(rows, rows.elements, _mean)),
    "ReduceL1": _reduced(lambda rows: _sum(rows, np.abs(rows.elements), _total)),
    "ReduceL2": _reduced(
        lambda rows: _sum(rows, np.square(rows.elements), lambda total, _: np.sqrt(total))
    ),
    "ReduceSumSquare": _reduced(lambda rows: _sum(rows, np.square(rows.elements), _total)),
    "ReduceLogSum": _reduced(
        lambda rows: _sum(rows, rows.elements, lambda total, _: np.log(total))
    ),
    "ReduceProd": _reduced(_product),
    "ReduceMax": _reduced(_extreme),
    "ReduceMin": _reduced(_extreme),
    **dict.fromkeys(("MaxPool", "GlobalMaxPool"), _pooled),
    "ReduceLogSumExp": _reduced(_log_of_powers),
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "LayerNormalization": _layer_normalized,
    "RMSNormalization": _squares,
    **dict.fromkeys(("DFT", "STFT"), _fourier),
}
