from fusionc.exactness.signs import is_at_least_zero, is_never_negative
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constant_arithmetic import check_zeros
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var
from fusionc.rewrite.pattern import OpFormula

x = var("x")


def _twice(name: str) -> OpFormula:
    return op[name](op[name](x))


def _once(m: Match, new: Tape) -> Result:
    return new.node(m.nodes[0].op, [m.x], like=m.nodes[0])


def _is_at_least_zero(m: Match) -> bool:
    """Whether no element of x is negative."""
    return is_at_least_zero(m.x)


def _unchanged(m: Match, new: Tape) -> Result:
    if not is_never_negative(m.x):
        check_zeros(m)
    return m.x


class IdempotentOpPass(Pass):
    """An operator that is applied twice in a row is applied once, or not at all.

    before   Relu(Relu(x)), and the same with Abs, Ceil, Floor, Round and Sign; Neg(Neg(x)), and the
             same with Not and BitwiseNot; Abs or Relu of a value that is never negative, such as
             Abs(Relu(x))
    after    Relu(x), and so on; x
    refuses  Abs and Relu of a zero that may be −0, if a later division depends on its sign
    never    Clip(Clip(x)), which ClipFusionPass joins; Reciprocal(Reciprocal(x)), which is not
             exact
    algebra  f(f(x)) = f(x) for projections; f(f(x)) = x for involutions, bit by bit;
             Abs and Relu may change the sign of a zero
    source   onnx-optimizer's passes for consecutive idempotent operators
    """

    patterns = (
        Pattern(
            "NeverNegative",
            op["Abs", "Relu"](x),
            _unchanged,
            where=_is_at_least_zero,
            is_exact=True,
        ),
        *(
            Pattern(f"{name}{name}", _twice(name), _once)
            for name in sorted(names_with(Trait.IDEMPOTENT))
        ),
        *(Pattern(f"{name}{name}", _twice(name)) for name in sorted(names_with(Trait.INVOLUTION))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
