from fusionc.passes._shared.constant_arithmetic import c_is, check_fits, is_zero, without_one
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var
from fusionc.shapes.equality import broadcasts_into

x, y, c = var("x"), var("y"), const("c")


def _choose(m: Match, new: Tape) -> Result:
    chosen, other = (m.x, m.y) if m.c.constant().all() else (m.y, m.x)
    if not all(broadcasts_into(value.shape, chosen.shape) for value in (m.c, other)):
        refuse("the other operands may enlarge the result")
    return chosen


def _is_negative_zero(m: Match) -> bool:
    """Whether the constant is −0 everywhere, or 0 of integers."""
    return is_zero(m.c, -1.0)


def _is_positive_zero(m: Match) -> bool:
    """Whether the constant is 0, not −0, everywhere."""
    return is_zero(m.c, 1.0)


def _is_decided(m: Match) -> bool:
    """Whether the condition is true everywhere, or false everywhere."""
    return c_is(1)(m) or c_is(0)(m)


class UselessBinaryOpRemovePass(Pass):
    """An operation with its neutral element goes.

    before   x + −0, x − 0 (x + 0 of integers), x · 1, x / 1, x ^ 1, x and true, x or false; Where of a condition
             that is known
    after    x; the operand that Where chooses
    refuses  a constant, or an operand of Where, that may enlarge the result by broadcasting: where the shape of x is
             not known to hold it; a vector of ones that scales a written-out normalization, by which runtimes recognize
             it
    algebra  the neutral element leaves every number as it is, NaN, infinities and −0 too: −0 + 0
             would be 0, so that + 0 stays
    source   CANN's UselessBinaryOpRemovePass and AlgebraicSimplificationPass
    """

    aliases = ("AlgebraicSimplificationPass",)
    patterns = (
        Pattern("AddZero", x + c, where=_is_negative_zero),
        Pattern("SubZero", x - c, where=_is_positive_zero),
        Pattern("MulOne", x * c, without_one, where=c_is(1)),
        Pattern("DivOne", x / c, where=c_is(1)),
        Pattern("PowOne", x**c, where=c_is(1)),
        Pattern("AndTrue", op.And(x, c), where=c_is(1)),
        Pattern("OrFalse", op.Or(x, c), where=c_is(0)),
        Pattern("WhereConstant", op.Where(c, x, y), _choose, where=_is_decided),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        check_fits(m.c, m.x)
        return m.x
