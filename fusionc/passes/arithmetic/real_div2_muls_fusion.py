from fusionc.exactness.constant_factors import is_power_of_two
from fusionc.passes._shared.constant_arithmetic import inverse, numbers, rounded
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var

x = var("x")
c = const("c")


def _is_exact(m: Match) -> bool:
    """Whether all elements of the constant are powers of two."""
    return is_power_of_two(numbers(m.c))


def _is_rounded(m: Match) -> bool:
    """Whether an element of the constant is not a power of two."""
    return not _is_exact(m)


class RealDiv2MulsFusionPass(Pass):
    """Division by a constant becomes multiplication by its reciprocal.

    before   x / c
    after    x · (1/c)
    refuses  integers; a c that is 0 or infinite, or whose reciprocal is too small for its type; a
             quotient that Erf reads, because runtimes recognize Gelu by the division; a quotient of
             a MatMul, because runtimes recognize attention by the division; a large c that is used
             elsewhere
    algebra  the same bits if c is a power of two; otherwise 1/c is rounded once
    source   CANN's RealDiv2MulsFusionPass, which accepts scalars only
    """

    numerics = "rounding"
    patterns = (
        Pattern("PowerOfTwo", op.Div(x, c), where=_is_exact, is_exact=True),
        Pattern("OtherConstant", op.Div(x, c), where=_is_rounded),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        (quotient,) = m.outputs
        if any(user.op == "Erf" for user in quotient.outputs):
            refuse("onnxruntime recognizes Gelu by this division, so it stays")
        if m.x.producer is not None and m.x.producer.op == "MatMul":
            refuse("onnxruntime recognizes attention by this division, so it stays")
        return new.Mul(m.x, rounded(new, inverse(numbers(m.c)), m.c))
