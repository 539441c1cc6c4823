"""How much the result of a reduction depends on the order of its elements: its spread, the largest
difference between two orders.

The order depends on the processor. It combines one element after the other, or computes several
partial results at once, as many as a vector has elements. Therefore a sum of large numbers of both
signs may be finite in one order and infinite in another. A product whose partial products overflow
or underflow may be NaN in only one order. Verification and the tests of kernels read REDUCTIONS,
the table of all operators that reduce. The product of several tensors has a bound, too, because
rewrites change the order of its factors.
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
# the numbers of partial results that are tested: a processor computes as many as one vector has
# elements, or several vectors together
_PARTS = (1, 2, 4, 8, 16, 32, 64)
_MARGIN = 4  # powers of two by which an untested order may exceed the tested ones
_KEEP_WHOLE = names_with(Trait.KEEPS_WHOLE)
_Finish = Callable[[Floats, int], Floats]  # computes a result from a sum and its number of terms


def spreads(
    op: str, attributes: Attributes, inputs: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """For each of the first outputs, and for each of its elements, the largest difference between
    two orders.

    The difference is 0 if all orders give the same element, and infinity if the element may have
    any value: NaN, infinite, or another number. The operator must be in REDUCTIONS, and its first
    input must have floats.
    """
    x = inputs[0]
    assert x is not None and x.dtype.kind == "f"
    with np.errstate(all="ignore"):
        differences = REDUCTIONS[op](x, attributes, inputs[1:], outputs)
    if x.dtype != np.float16:
        return differences
    is_whole = op in _KEEP_WHOLE and bool((np.rint(x) == x).all())
    pairs = zip(differences, outputs, strict=True)
    return [_half_spread(spread, result, is_whole) for spread, result in pairs]


def spread_of_product(factors: Sequence[Array]) -> Floats:
    """Infinity if partial products of these floats, which broadcast, overflow or underflow in only
    some orders. Otherwise 0, because rounding is small.
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
    """The binary exponents of numbers; 0 for 0, NaN and infinities."""
    wide = x.astype(np.float64)
    return np.asarray(np.log2(np.abs(np.where(np.isfinite(wide) & (wide != 0), wide, 1))))


def _half_spread(spread: Floats, result: Array, is_whole: bool) -> Floats:
    """The spread of a float16 result. onnxruntime computes it in float32, and rounds it to float16
    or passes it on as float32.
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
    written = more[0] if more and more[0] is not None else attributes.get("axes", ())
    axes = tuple(int(axis) % x.ndim for axis in np.ravel(written))
    if axes or attributes.get("noop_with_empty_axes", 0):
        return axes
    return tuple(range(x.ndim))


class _Rows:
    """The elements of a reduction, in the type of the computation. The elements along the last axis
    are reduced to one.
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
        # two elements give the same sum or product in either order
        self.noise = self.rounding * np.sqrt(self.count) if self.count > 2 else 0.0
        self.slack = self.rounding * (self.count + 8)

    def has(self, test: Callable[[Array], Array]) -> Array:
        return np.asarray(test(self.elements).any(-1))


def _sum(rows: _Rows, terms: Array, finish: _Finish) -> Floats:
    """The spread of a result computed from a sum. Infinity if some orders overflow and others do
    not.
    """
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
    # an exact sum must not move: it may be a count, for example of a mask, that determines a size
    if finish is _total:
        error = np.where(_is_exact(rows, wide, (up + down) * unit), 0, error)
    result = finish(total, rows.count)
    errors = [np.abs(finish(total + sign * error, rows.count) - result) for sign in (1, -1)]
    errors = [np.where(np.isnan(one), np.inf, one) for one in errors]
    spread = np.where(error > 0, np.maximum(*errors), 0)
    return np.where(same, np.where(plus | minus | nan | may_rise | may_fall, 0, spread), np.inf)


def _is_exact(rows: _Rows, terms: Floats, size: Floats) -> Floats:
    """Whether no partial sum is rounded: all are multiples of one power of two, and small enough
    to fit into the digits of the type.
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
    """The spread of a product. Infinity if partial products overflow or underflow in some orders
    and not in others.
    """
    x = rows.elements.astype(np.float64)
    powers = _powers(x)
    lowest, highest = _partial_extremes(powers)
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
    """Whether a product is the same in all orders.

    `has`: whether NaN, an infinity and 0 are among the factors. `ways`: whether some order
    underflows, and whether some order overflows. `total`: the exponent of the product. `exponents`:
    those of the smallest and the largest number of the type. `margin`: the powers of two by which
    the total must be beyond these exponents.
    """
    (nan, inf, zero) = has
    (underflows, overflows) = ways
    (least, most) = exponents
    same = np.where(zero, ~overflows, np.where(inf, ~underflows, ~overflows & ~underflows))
    is_nothing = total <= least - margin
    same |= ~zero & ~inf & ((~underflows & (total >= most + margin)) | (~overflows & is_nothing))
    return np.asarray(same | nan | (zero & inf))


def _partial_extremes(powers: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest partial sum of exponents in the orders that processors use.
    Processors divide a row into 1 to 64 parts, each of neighbouring elements or of elements at
    equal distances, and then add the sums of the parts.
    """
    lowest = np.zeros(powers.shape[:-1])
    highest = np.zeros(powers.shape[:-1])
    for parts in _PARTS:
        missing = -powers.shape[-1] % parts
        padded = np.concatenate([powers, np.zeros((*powers.shape[:-1], missing))], -1)
        neighbouring = padded.reshape(*powers.shape[:-1], parts, -1)
        interleaved = np.swapaxes(padded.reshape(*powers.shape[:-1], -1, parts), -1, -2)
        for order in (neighbouring, interleaved, interleaved[..., ::-1]):
            for sums in (order.cumsum(-1), order.sum(-1, keepdims=True).cumsum(-2)):
                lowest = np.minimum(lowest, sums.min((-1, -2), initial=0))
                highest = np.maximum(highest, sums.max((-1, -2), initial=0))
    return lowest, highest


def _reduced(rule: Callable[[_Rows], Floats]) -> Any:
    """The spreads of an operator whose only output has one result for each row."""

    def spreads_of_rows(
        x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
    ) -> list[Floats]:
        axes = _axes(x, attributes, more)
        if not axes or not x.size:
            return [np.zeros(outputs[0].shape)]
        return [rule(_Rows(x, axes)).reshape(outputs[0].shape)]

    return spreads_of_rows


def _extreme(rows: _Rows) -> Floats:
    """The spread of a minimum or maximum. Depending on the place of a NaN in a row, onnxruntime
    returns NaN or not; kernels always return NaN.
    """
    return np.where(rows.has(np.isnan), np.inf, 0.0)


def _pooled(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spreads of a pooling, which reduces windows of an image. If onnxruntime's optimizers have
    changed the layout of images, the pooling reads the elements in another order.
    """
    images = np.isnan(x).any(tuple(range(2, x.ndim)), keepdims=True)
    return [np.where(np.broadcast_to(images, outputs[0].shape), np.inf, 0.0)]


def _log_of_powers(rows: _Rows) -> Floats:
    """The spread of LogSumExp: the logarithm of a rounded sum plus the largest element, which may
    cancel each other. The place of a NaN decides whether it counts as the largest element.
    """
    largest = rows.elements.max(-1, initial=-np.inf).astype(np.float64)
    rounded = np.where(np.isfinite(largest), rows.noise + rows.rounding * np.abs(largest), 0)
    return np.where(np.isnan(largest), np.inf, rounded)


def _softmax(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spread of a softmax. The largest element of a row is subtracted before powers are summed,
    so nothing overflows or cancels. Subnormal results have few digits, and some processors make
    them 0.
    """
    info = np.finfo(np.float64 if x.dtype.itemsize > 4 else np.float32)
    tiny = np.abs(outputs[0].astype(np.float64)) < info.tiny
    is_near = tiny & (outputs[0] != 0) | (
        x - _largest(x, attributes) > np.log(float(info.smallest_subnormal)) - 2
    )
    return [np.where(tiny & is_near, 2 * float(info.smallest_subnormal), 0)]


def _largest(x: Array, attributes: Attributes) -> Array:
    """The largest element of each row of a softmax, for all versions of the operator. Up to opset
    12, a row contains the given axis and all later axes.
    """
    axis = int(attributes.get("axis", -1)) % max(x.ndim, 1)
    return np.asarray(x.max(tuple(range(axis, x.ndim)), keepdims=True, initial=-np.inf))


def _log_softmax(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spread of a LogSoftmax: infinity for rows with a NaN or +infinity, because its place
    decides whether the whole row becomes NaN. Elements that are NaN stay NaN.
    """
    largest = _largest(x, attributes)
    return [np.where((largest < np.inf) | np.isnan(x), 0.0, np.inf)]


def _layer_normalized(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spread of a normalization. The variance is computed as the mean of squared distances, or
    as the mean of squares minus the squared mean. The two forms differ if the second one cancels or
    overflows. The mean of a row with an infinity is infinite or NaN.
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
    differences = [
        np.where(every, np.inf, np.nan_to_num(each)),
        np.where(no_nan | is_open, np.inf, np.nan_to_num(of_mean)),
        np.where(is_open, np.inf, np.nan_to_num(relative * inverse)),
    ]
    return [
        spread.reshape(output.shape)
        for spread, output in zip(differences[: len(outputs)], outputs, strict=True)
    ]


def _squares(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spread of a sum of squares: 0. Squares have one sign, so their sum overflows in every
    order or in none.
    """
    return [np.zeros(output.shape) for output in outputs]


def _fourier(
    x: Array, attributes: Attributes, more: Sequence[Array | None], outputs: Sequence[Array]
) -> list[Floats]:
    """The spread of a Fourier transform. If the length is not a power of two, onnxruntime's error
    is a few roundings per element.
    """
    bins = outputs[0].astype(np.float64)
    largest = np.abs(bins).max((-2, -1), keepdims=True, where=np.isfinite(bins), initial=0)
    return [np.broadcast_to(8 * np.finfo(x.dtype).eps * bins.shape[-2] * largest, bins.shape)]


# The spreads of the outputs of every operator that reduces.
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
