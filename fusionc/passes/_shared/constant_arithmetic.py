"""Arithmetic with constants.

Floating-point constants are combined in float64 and rounded once. Integers are combined in their
own type, in which they wrap around as they do when the model runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from fusionc.exactness.decisions_ahead import SIGN, decider_of
from fusionc.model.graph import Constant, Edge
from fusionc.model.tensors import Array, float_info, to_proto
from fusionc.passes._shared.constants import array_of, would_double
from fusionc.passes._shared.written_norms import keep_scale
from fusionc.rewrite import Match, Result, Tape, refuse
from fusionc.shapes.equality import broadcasts_into
from fusionc.shapes.expressions import is_static

_TOO_SMALL = "a constant would be too small for its type"


def is_everywhere(value: Edge, number: float) -> bool:
    """Whether a value is a constant that is not empty, and all its elements equal this number."""
    array = value.constant()
    if array is None or not array.size or array.dtype.kind in "OSU":
        return False
    return bool((array == number).all())


def c_is(number: float) -> Callable[[Match], bool]:
    """A `where` condition for patterns: whether all elements of the constant m.c equal `number`."""

    def where(m: Match) -> bool:
        return is_everywhere(m.c, number)

    where.__doc__ = f"Whether the constant is {number:g} everywhere."
    return where


def is_zero(value: Edge, sign: float) -> bool:
    """Whether all elements of a constant are zeros of this sign (1.0 or −1.0). The zero of integers
    counts for both signs.

    The sign matters because −0 + 0 is 0, not −0.
    """
    array = value.constant()
    if array is None or not is_everywhere(value, 0):
        return False
    return is_integer(array) or bool((np.copysign(1.0, array.astype(np.float64)) == sign).all())


def check_fits(constant: Edge, x: Edge) -> None:
    """Refuse a constant that may broadcast x to a larger shape."""
    if not broadcasts_into(array_of(constant).shape, x.shape):
        refuse("the constant may enlarge the result")


def drop_one(m: Match, new: Tape) -> Result:
    """Replace m.x · m.c by m.x. Refuses a constant c that may enlarge the result. Also refuses the
    scale of a normalization, because onnxruntime recognizes the normalization by it.
    """
    check_fits(m.c, m.x)
    keep_scale(m.x, m.c)
    return m.x


def single_number(constant: Edge | None, x: Edge, default: float = 1.0) -> float:
    """The only element of a constant, or `default` if `constant` is None. Refuses a constant that
    has several elements, or that may enlarge x.
    """
    if constant is None:
        return default
    array = array_of(constant)
    if array.size != 1 or not broadcasts_into(array.shape, x.shape):
        refuse("the constant is not a single number")
    return float(array.item())


def require_attribute(number: float | None, x: Edge) -> None:
    """Refuse a number that an attribute cannot hold exactly, if x may be float64.

    Attributes are float32. In a function body, the type of x is unknown and may be float64.
    """
    may_be_double = x.elem_type in (TensorProto.DOUBLE, TensorProto.UNDEFINED)
    if number is not None and may_be_double and float(np.float32(number)) != number:
        refuse("a number has more digits than an attribute can hold")


def is_integer(array: Array) -> bool:
    """Whether the element type is an integer type, whose arithmetic wraps around."""
    return array.dtype.kind in "iu"


def numbers(constant: Edge) -> Array:
    """The elements of a constant for arithmetic: integers unchanged, all others in float64."""
    array = array_of(constant)
    return array if is_integer(array) else array.astype(np.float64)


def product(a: Array, b: Array) -> Array:
    """The elementwise product. Refuses if a product of two nonzero numbers underflows to 0."""
    result = np.asarray(a * b)
    if not is_integer(result) and ((result == 0) & (a != 0) & (b != 0)).any():
        refuse(_TOO_SMALL)
    return result


def joined_scale(first: Array, second: Array, *like: Edge) -> Array:
    """The single factor that replaces two: x · first · second becomes x · result. Refuses if
    x · first may overflow or underflow although x · result does not.

    For example, the factor 1e30 followed by 1e-30 turns every x above 3e8 into infinity. `like` are
    the two constants: their types determine when a number overflows. Integers wrap around, so they
    are never refused.
    """
    result = product(first, second)
    if is_integer(result):
        return result
    largest = float(min(float_info(array_of(constant).dtype).max for constant in like))
    limit = largest**0.25
    magnitude = np.abs(first)
    result_magnitude = np.maximum(np.abs(result), 1)
    if (np.isfinite(first) & (magnitude > limit * result_magnitude)).any():
        refuse("the first constant alone may make a number infinite")
    if ((magnitude < 1) & (np.abs(second) > limit)).any():
        refuse("the first constant alone may make a number too small")
    return result


def inverse(a: Array) -> Array:
    """1 / a for each element. Refuses integers and infinite elements."""
    if is_integer(a):
        refuse("the elements are not floating-point numbers")
    if np.isinf(a).any():
        refuse("a constant is infinite")
    return np.asarray(1 / a)


def rounded(new: Tape, exact: Array, *like: Edge) -> Constant:
    """A new constant with the numbers `exact`, rounded to the element type of the constants `like`,
    which it replaces. Refuses a constant that would be infinite, NaN or subnormal, or that would
    make the model larger.

    The model would become larger if the new constant had more elements than the largest constant
    of `like`. It would also become larger if the new constant were large and other nodes used the
    largest constant of `like`, because both would then be in the model.
    """
    largest = max(like, key=lambda constant: array_of(constant).size)
    if exact.size > array_of(largest).size:
        refuse("the constants together would become larger")
    if would_double(largest, exact.size):
        refuse("a large constant is used elsewhere")
    constant = new.const(exact, dtype=array_of(largest).dtype, like=largest)
    if is_integer(exact):
        return constant
    if not np.isfinite(exact).all():
        refuse("a constant would not be finite")
    smallest = float(float_info(constant.values.dtype).smallest_normal)
    if ((np.abs(exact) < smallest) & (exact != 0)).any():
        refuse(_TOO_SMALL)
    return constant


def negated(new: Tape, constant: Edge) -> Constant:
    """A new constant with the negated elements; integers wrap around. Refuses a large constant that
    other nodes use, too, because both would then be in the model.
    """
    array = array_of(constant)
    if would_double(constant, array.size):
        refuse("a large constant is used elsewhere")
    return new.const(
        np.asarray(np.negative(array)).astype(array.dtype), like=constant, dtype=array.dtype
    )


def zeros(new: Tape, x: Edge) -> Edge:
    """Zeros with the type and shape of x. If the shape is known, the result does not depend on
    x.
    """
    dtype = x.require_type()
    shape = x.shape
    size = new.const(np.array(shape, np.int64)) if is_static(shape) else new.Shape(x)
    zero = to_proto(np.zeros(1, dtype), "value")
    return new.ConstantOfShape(size, value=zero)


def check_zeros(m: Match) -> None:
    """Refuse if a later division depends on the sign of a zero in an output of the match."""
    if any(decider_of(value, SIGN) for value in m.outputs):
        refuse("a later division depends on the sign of a zero")


def check_power(m: Match) -> None:
    """Refuse if m.x ^ m.c is not the same as a product of x with itself.

    This is so if the constant c may enlarge x. It is also so for integers if x may be a single
    number or if c has several exponents, because onnxruntime may then compute the power in float64.
    """
    check_fits(m.c, m.x)
    dtype = m.x.require_type()
    is_several = any(isinstance(dim, int) and dim > 1 for dim in m.x.shape or ())
    if dtype.kind in "iu" and not (is_several and m.c.constant().size == 1):
        refuse("onnxruntime may compute this power in double")


def square(m: Match, new: Tape) -> Result:
    """x · x in place of m.x ^ m.c with c = 2. Refuses a square whose mean is taken, because
    onnxruntime recognizes normalizations by it.
    """
    check_power(m)
    (result,) = m.outputs
    if any(user.op == "ReduceMean" for user in result.outputs):
        refuse("onnxruntime recognizes normalizations by this square, so it stays")
    return new.Mul(m.x, m.x)
