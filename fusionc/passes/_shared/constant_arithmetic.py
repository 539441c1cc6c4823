"""Arithmetic with constants.

Constants are combined in float64 and rounded once; integers are combined in their own type, where
they wrap around as they do when the model runs.
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
    """Whether a constant is this number in all of its elements, of which it has some."""
    array = value.constant()
    if array is None or not array.size or array.dtype.kind in "OSU":
        return False
    return bool((array == number).all())


def c_is(number: float) -> Callable[[Match], bool]:
    """The `where` of a pattern: whether the constant m.c is this number in all of its elements."""

    def where(m: Match) -> bool:
        return is_everywhere(m.c, number)

    where.__doc__ = f"Whether the constant is {number:g} everywhere."
    return where


def is_zero(value: Edge, sign: float) -> bool:
    """Whether a constant is a zero of this sign everywhere; integers have one zero. −0 + 0 is 0,
    not −0.
    """
    array = value.constant()
    if array is None or not is_everywhere(value, 0):
        return False
    return is_integer(array) or bool((np.copysign(1.0, array.astype(np.float64)) == sign).all())


def check_fits(constant: Edge, x: Edge) -> None:
    """Refuse a constant that may give the result a larger shape than x has."""
    if not broadcasts_into(array_of(constant).shape, x.shape):
        refuse("the constant may enlarge the result")


def without_one(m: Match, new: Tape) -> Result:
    """x of x · c, where c is one everywhere. Refuses where c may enlarge the result, or is the
    scale of a norm.
    """
    check_fits(m.c, m.x)
    keep_scale(m.x, m.c)
    return m.x


def single_number(constant: Edge | None, x: Edge, default: float = 1.0) -> float:
    """The only element of a constant that leaves x as large as it is; `default` where there is no
    constant.
    """
    if constant is None:
        return default
    array = array_of(constant)
    if array.size != 1 or not broadcasts_into(array.shape, x.shape):
        refuse("the constant is not a single number")
    return float(array.item())


def require_attribute(number: float | None, x: Edge) -> None:
    """Refuse a number that becomes an attribute, which is a float32, and would change: beside
    doubles that is much. In the body of a function the type is unknown.
    """
    may_be_double = x.elem_type in (TensorProto.DOUBLE, TensorProto.UNDEFINED)
    if number is not None and may_be_double and float(np.float32(number)) != number:
        refuse("a number of more digits than an attribute has")


def is_integer(array: Array) -> bool:
    """Whether the elements are integers, which wrap around."""
    return array.dtype.kind in "iu"


def numbers(constant: Edge) -> Array:
    """The elements to compute with: integers as they are, all others in float64."""
    array = array_of(constant)
    return array if is_integer(array) else array.astype(np.float64)


def product(a: Array, b: Array) -> Array:
    """The products of the elements. Refuses where two numbers that are not 0 become 0."""
    result = np.asarray(a * b)
    if not is_integer(result) and ((result == 0) & (a != 0) & (b != 0)).any():
        refuse(_TOO_SMALL)
    return result


def joined_scale(first: Array, second: Array, *like: Edge) -> Array:
    """The products of two factors by which x is multiplied one after the other, constants of the
    types of `like`.

    Refuses where x times the first one overflows, or loses digits that the second one makes large,
    at elements for which the result is an ordinary number: 1e30 and then 1e-30 make infinity of all
    that is above 3e8.
    """
    result = product(first, second)
    if is_integer(result):
        return result
    largest = float(min(float_info(array_of(constant).dtype).max for constant in like))
    far = largest**0.25
    size = np.abs(first)
    whole = np.maximum(np.abs(result), 1)
    if (np.isfinite(first) & (size > far * whole)).any():
        refuse("the first constant alone may make a number infinite")
    if ((size < 1) & (np.abs(second) > far)).any():
        refuse("the first constant alone may make a number too small")
    return result


def inverse(a: Array) -> Array:
    """One over each element. Refuses integers, and infinities: x/∞ is NaN where x is infinite as
    well.
    """
    if is_integer(a):
        refuse("the elements are not floating-point numbers")
    if np.isinf(a).any():
        refuse("a constant is infinite")
    return np.asarray(1 / a)


def rounded(new: Tape, exact: Array, *like: Edge) -> Constant:
    """A new constant that stands for those of `like`, in their element type.

    Refuses infinities, numbers below the smallest normal one, more elements than the largest of
    `like` has, and a second large constant beside one that stays.
    """
    largest = max(like, key=lambda constant: array_of(constant).size)
    if exact.size > array_of(largest).size:
        refuse("the constants together would become larger")
    if would_double(largest, exact.size):
        refuse("a large constant is used elsewhere")
    made = new.const(exact, dtype=array_of(largest).dtype, like=largest)
    if not is_integer(exact):
        if not np.isfinite(exact).all():
            refuse("a constant would not be finite")
        smallest = float(float_info(made.values.dtype).smallest_normal)
        if ((np.abs(exact) < smallest) & (exact != 0)).any():
            refuse(_TOO_SMALL)
    return made


def negated(new: Tape, constant: Edge) -> Constant:
    """The same constant with other signs; of integers, modulo their range."""
    array = array_of(constant)
    if would_double(constant, array.size):
        refuse("a large constant is used elsewhere")
    return new.const(
        np.asarray(np.negative(array)).astype(array.dtype), like=constant, dtype=array.dtype
    )


def zeros(new: Tape, x: Edge) -> Edge:
    """Zeros in the type and the shape of x, and without x where the shape is known."""
    if x.dtype is None:
        refuse("the element type is unknown")
    shape = x.shape
    size = new.const(np.array(shape, np.int64)) if is_static(shape) else new.Shape(x)
    zero = to_proto(np.zeros(1, x.dtype), "value")
    return new.ConstantOfShape(size, value=zero)


def check_zeros(m: Match) -> None:
    """Refuses another sign of a zero where something is divided by what is made of it."""
    if any(decider_of(value, SIGN) for value in m.outputs):
        refuse("what is divided by a zero depends on its sign")


def check_power(m: Match) -> None:
    """Refuses where m.x ^ m.c is no product of the elements of x: where c may enlarge x, and
    integers of which onnxruntime computes the power in double, one number or one with several
    exponents.
    """
    check_fits(m.c, m.x)
    if m.x.dtype is None:
        refuse("the element type is unknown")
    is_several = any(isinstance(dim, int) and dim > 1 for dim in m.x.shape or ())
    if m.x.dtype.kind in "iu" and not (is_several and m.c.constant().size == 1):
        refuse("a power that onnxruntime may compute in double")


def square(m: Match, new: Tape) -> Result:
    """m.x ^ m.c as a product, for a constant that is 2."""
    check_power(m)
    (result,) = m.outputs
    if any(user.op == "ReduceMean" for user in result.outputs):
        refuse("the mean of squares")  # runtimes recognize normalizations by the power
    return new.Mul(m.x, m.x)
