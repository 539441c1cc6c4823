from fusionc.exactness.signs import is_never_negative
from fusionc.operators.deciding_operators import is_real
from fusionc.passes._shared.constant_arithmetic import (
    c_is,
    check_fits,
    check_zeros,
    drop_one,
    is_zero,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var
from fusionc.shapes.equality import broadcasts_into

x = var("x")
y = var("y")
c = const("c")


def _choose(m: Match, new: Tape) -> Result:
    chosen, other = (m.x, m.y) if m.c.constant().all() else (m.y, m.x)
    if not all(broadcasts_into(value.shape, chosen.shape) for value in (m.c, other)):
        refuse("the other operands may enlarge the result")
    if chosen is m.x:
        _check_first(m)
    return chosen


def _either(m: Match, new: Tape) -> Result:
    if not broadcasts_into(m.condition.shape, m.x.shape):
        refuse("the condition may enlarge the result")
    _check_first(m)
    return m.x


def _check_first(m: Match) -> None:
    """Refuse if −0 matters: onnxruntime's Where turns a −0 of its first operand into 0."""
    if is_real(m.x.elem_type) and not is_never_negative(m.x):
        check_zeros(m)


def _is_negative_zero(m: Match) -> bool:
    """Whether the constant is −0 everywhere, or an integer 0 everywhere."""
    return is_zero(m.c, -1.0)


def _is_positive_zero(m: Match) -> bool:
    """Whether the constant is +0 everywhere, or an integer 0 everywhere."""
    return is_zero(m.c, 1.0)


def _is_decided(m: Match) -> bool:
    """Whether the condition is true everywhere, or false everywhere."""
    return c_is(1)(m) or c_is(0)(m)


class UselessBinaryOpRemovePass(Pass):
    """An operation with a neutral constant, or a Where with a known result, is removed.

    before   x + −0, x − 0 (for integers also x + 0), x · 1, x / 1, x ^ 1, And(x, true),
             Or(x, false); Where with a constant condition, or with two equal operands
    after    x; the operand that Where chooses
    refuses  the first operand of a Where if a later division depends on the sign of zero; a
             constant or operand that may enlarge the result, because it is not known to broadcast
             into x; a vector of ones that scales a normalization that is written out, because
             runtimes recognize the normalization by it
    algebra  a neutral constant keeps every number, also NaN, infinities and −0. x + 0 stays,
             because −0 + 0 is 0. onnxruntime's Where turns a −0 of its first operand into 0
    source   CANN's UselessBinaryOpRemovePass and AlgebraicSimplificationPass
    """

    numerics = "rounding"
    aliases = ("AlgebraicSimplificationPass",)
    patterns = (
        Pattern("AddZero", x + c, where=_is_negative_zero, is_exact=True),
        Pattern("SubZero", x - c, where=_is_positive_zero, is_exact=True),
        Pattern("MulOne", x * c, drop_one, where=c_is(1), is_exact=True),
        Pattern("DivOne", x / c, where=c_is(1), is_exact=True),
        Pattern("PowOne", x**c, where=c_is(1), is_exact=True),
        Pattern("AndTrue", op.And(x, c), where=c_is(1), is_exact=True),
        Pattern("OrFalse", op.Or(x, c), where=c_is(0), is_exact=True),
        Pattern("WhereConstant", op.Where(c, x, y), _choose, where=_is_decided, is_exact=True),
        Pattern("WhereEqual", op.Where(var("condition"), x, x), _either, is_exact=True),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        check_fits(m.c, m.x)
        return m.x
