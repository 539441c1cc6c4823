from fusionc.passes._shared.constant_arithmetic import inverse, joined_scale, numbers, rounded
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into

a = var("a")
b = var("b")
k = const("k")
q = const("q")


def _one_over(x: Formula) -> Formula:
    return either(op.Reciprocal(x), 1 / x)


def _quotient(m: Match, new: Tape) -> Result:
    require_floats(m.a)
    if not broadcasts_into(m.b.shape, m.a.shape):
        refuse("the result may need more divisions")
    return new.Div(m.b, m.a)


def _constants(m: Match, new: Tape) -> Result:
    require_floats(m.a)
    factor = inverse(numbers(m.q)) if m.outer.op == "Div" else numbers(m.q)
    return new.Div(rounded(new, joined_scale(numbers(m.k), factor, m.k, m.q), m.k, m.q), m.a)


def _product(m: Match, new: Tape) -> Result:
    require_floats(m.a)
    return new.Mul(m.b, m.a)


def _inverse_quotient(m: Match, new: Tape) -> Result:
    require_floats(m.a)
    return new.Div(m.b, m.a)


class QuotientSimplifyPass(Pass):
    """Quotients that are multiplied or divided become one quotient or one product.

    before   (1/a)·b; (k/a)·q and (k/a)/q with constants k and q; b/(1/a); 1/(a/b); also with
             Reciprocal in place of 1/…
    after    b/a; kq/a; b·a; b/a
    refuses  integers; a b whose shape is larger than that of a, because it would need more
             divisions; constants whose product would be too large or too small for their type, or
             would have more elements; a k that alone may enlarge the quotient
    never    (k/a)·b with a k other than 1, because every form of it has two operators
    algebra  equal for real numbers; the new form rounds once instead of twice, and has no
             intermediate quotient that could overflow
    source   rules for reciprocals that other ONNX optimizers have
    """

    numerics = "rounding"
    patterns = (
        Pattern("InverseTimes", _one_over(a) * b, _quotient),
        Pattern(
            "ConstantOver",
            either(op.Mul(k / a, q, _as="outer"), op.Div(k / a, q, _as="outer")),
            _constants,
        ),
        Pattern("OverInverse", b / _one_over(a), _product),
        Pattern("InverseOfQuotient", _one_over(a / b), _inverse_quotient),
    )
