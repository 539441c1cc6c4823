from collections.abc import Callable

from fusionc.passes.arithmetic import FLOATS, NO_FLOATS, check_fits, is_everywhere, is_never_negative
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, refuse, var

_POWER = var("x") ** const("c")


def _is(number: float) -> Callable[[Match], bool]:
    return lambda m: is_everywhere(m.c, number)


def _check_float(m: Match) -> None:
    check_fits(m.c, m.x)
    if m.x.elem_type not in FLOATS:
        refuse(NO_FLOATS)


def _check_root(m: Match) -> None:
    """Of −∞ a power is +∞, a root NaN; of −0 they have other signs."""
    _check_float(m)
    if not is_never_negative(m.x):
        refuse("x may be negative")


def _square(m: Match, new: Tape) -> Result:
    check_fits(m.c, m.x)
    return new.Mul(m.x, m.x)


def _reciprocal(m: Match, new: Tape) -> Result:
    _check_float(m)
    return new.Reciprocal(m.x)


def _root(m: Match, new: Tape) -> Result:
    _check_root(m)
    return new.Sqrt(m.x)


def _reciprocal_root(m: Match, new: Tape) -> Result:
    _check_root(m)
    return new.Reciprocal(new.Sqrt(m.x))


class PowToMulPass(Pass):
    """Powers with simple exponents become cheaper operators.

    before   x ^ 2, x ^ −1; x ^ 0.5, x ^ −0.5 of what cannot be negative, such as a sum of squares
    after    x · x, Reciprocal(x), Sqrt(x), Reciprocal(Sqrt(x))
    refuses  an exponent that may enlarge x; integers with other exponents than 2; roots of what may be negative
    never    x ^ 3: two multiplications take longer than the one power that onnxruntime makes a product of itself
    algebra  (−∞) ^ 0.5 = +∞, where √(−∞) is NaN: therefore only of what cannot be negative
    source   MindSpore's rules 1.5 and 1.6; onnxsim's pow2_to_mul
    """

    numerics = "rounding"
    patterns = (
        Pattern("Square", _POWER, _square, where=_is(2)),
        Pattern("Inverse", _POWER, _reciprocal, where=_is(-1)),
        Pattern("Root", _POWER, _root, where=_is(0.5)),
        Pattern("InverseRoot", _POWER, _reciprocal_root, where=_is(-0.5)),
    )
