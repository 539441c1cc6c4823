import math

from fusionc.exactness.signs import is_never_negative
from fusionc.passes._shared.constant_arithmetic import c_is, check_fits, check_power, square
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, refuse, var
from fusionc.shapes.expressions import is_static

_POWER = var("x") ** const("c")
# x · x · x took 0.8 of the time of the power for 250,000 elements, but 1.1 to 1.4 for 2 million.
_MAX_ELEMENTS = 2**18


def _require_floats_of_x(m: Match) -> None:
    check_fits(m.c, m.x)
    require_floats(m.x)


def _require_not_negative(m: Match) -> None:
    """Refuse an x that may be negative: for −∞ and −0, the power and the root have different
    results.
    """
    _require_floats_of_x(m)
    if not is_never_negative(m.x):
        refuse("x may be negative")


def _cube(m: Match, new: Tape) -> Result:
    check_power(m)
    shape = m.x.shape
    if not is_static(shape) or math.prod(shape) > _MAX_ELEMENTS:
        refuse("with so many elements, two multiplications may take longer")
    return new.Mul(new.Mul(m.x, m.x), m.x)


def _reciprocal(m: Match, new: Tape) -> Result:
    _require_floats_of_x(m)
    return new.Reciprocal(m.x)


def _root(m: Match, new: Tape) -> Result:
    _require_not_negative(m)
    return new.Sqrt(m.x)


def _reciprocal_root(m: Match, new: Tape) -> Result:
    _require_not_negative(m)
    return new.Div(new.const(1, dtype=m.x.dtype), new.Sqrt(m.x))


class PowToMulPass(Pass):
    """Powers with simple exponents become cheaper operators.

    before   x ^ 2, x ^ 3, x ^ −1; x ^ 0.5 and x ^ −0.5, if x cannot be negative, for example a sum
             of squares
    after    x · x, x · x · x, Reciprocal(x), Sqrt(x), 1 / Sqrt(x). onnxruntime recognizes a
             normalization with 1 / Sqrt(x), but not one with Reciprocal
    refuses  an exponent that may enlarge x; integers with exponents other than 2 and 3, or whose
             power onnxruntime computes in float64; roots of an x that may be negative; x ^ 3 of
             many elements; a square whose mean is taken, because runtimes recognize normalizations
             by this square
    algebra  (−∞) ^ 0.5 is +∞, but √(−∞) is NaN; roots therefore need an x that cannot be negative
    source   MindSpore's rules 1.5 and 1.6; onnxsim's pow2_to_mul
    """

    numerics = "rounding"
    patterns = (
        Pattern("Square", _POWER, square, where=c_is(2)),
        Pattern("Cube", _POWER, _cube, where=c_is(3)),
        Pattern("Inverse", _POWER, _reciprocal, where=c_is(-1)),
        Pattern("Root", _POWER, _root, where=c_is(0.5)),
        Pattern("InverseRoot", _POWER, _reciprocal_root, where=c_is(-0.5)),
    )
