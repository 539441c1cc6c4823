from collections.abc import Callable

from fusionc.exactness.signs import is_never_negative
from fusionc.operators.deciding_operators import is_real
from fusionc.passes._shared.cast_types import casts_nothing
from fusionc.passes._shared.constant_arithmetic import (
    c_is,
    check_fits,
    drop_one,
    is_everywhere,
    is_zero,
    negated,
    square,
    zeros,
)
from fusionc.passes._shared.reduce_axes import (
    drop_reduce,
    join_reduces,
    reduce_once,
    reduce_twice,
    reduces_nothing,
)
from fusionc.passes._shared.slice_split_concat import slices_nothing_off
from fusionc.passes._shared.transpose_and_reshape import reshape_reshape, transpose_transpose
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into

x = var("x")
y = var("y")
c = const("c")
_TWICE = op.Transpose(op.Transpose(x, _as="first"), _as="second")
_OPPOSITE = (
    ("Greater", "LessOrEqual"),
    ("LessOrEqual", "Greater"),
    ("GreaterOrEqual", "Less"),
    ("Less", "GreaterOrEqual"),
)


def _neutral(rule: str, formula: Formula, number: float) -> Pattern:
    return Pattern(rule, formula, _x_if_it_fits, where=c_is(number))


def _drop_zero(rule: str, formula: Formula, sign: float) -> Pattern:
    """The rule that drops an added constant of zeros with this sign. Zeros of the other sign change
    the result: they turn an x of −0 into 0.
    """

    def where(m: Match) -> bool:
        return is_zero(m.c, sign) or (is_everywhere(m.c, 0) and is_never_negative(m.x))

    where.__doc__ = (
        f"Whether the constant is {0 * sign:g} everywhere, or 0 and x is never negative."
    )
    return Pattern(rule, formula, _x_if_it_fits, where=where)


def _x_if_it_fits(m: Match, new: Tape) -> Result:
    check_fits(m.c, m.x)
    return m.x


def _has_integers(m: Match) -> bool:
    """Whether the elements are integers, which cannot be NaN or infinite."""
    return m.x.dtype is not None and m.x.dtype.kind in "iu"


def _select(m: Match, new: Tape) -> Result:
    if not broadcasts_into(m.c.shape, m.x.shape):
        refuse("the condition may enlarge the result")
    if is_real(m.x.elem_type) and not is_never_negative(m.x):
        refuse("onnxruntime's Where turns −0 into 0")
    return m.x


def _exact_square(m: Match, new: Tape) -> Result:
    """x · x, if onnxruntime also computes the power as a product, which it does if several elements
    along the last axis have one exponent.
    """
    last = m.x.shape[-1] if m.x.shape else 1
    is_multiplied = m.c.constant().size == 1 and isinstance(last, int) and last > 1
    if not is_multiplied and (m.x.dtype is None or m.x.dtype.kind == "f"):
        refuse("it is not known that onnxruntime computes this power as a product")
    return square(m, new)


def _adds_nothing(m: Match) -> bool:
    """Whether a ReduceSum changes nothing: it sums single elements, and none of them is −0, because
    a ReduceSum turns −0 into 0.
    """
    return reduces_nothing(m) and (_has_integers(m) or is_never_negative(m.x))


def _sum_of_negatives(m: Match, new: Tape) -> Result:
    return new.Neg(new.node("ReduceSum", [m.x, *m.axes], like=m.sum))


def _not(opposite: str) -> Callable[[Match, Tape], Result]:
    return lambda m, new: new.node(opposite, [m.x, m.y])


def _undoes(m: Match) -> bool:
    """Whether the second Transpose is the inverse of the first."""
    first = m.first.attr("perm")
    second = m.second.attr("perm")
    if not first or not second:
        return not first and not second
    return [first[axis] for axis in second] == sorted(first)


_OF_ONE_ELEMENT = (
    ("ReduceSum", _adds_nothing),
    ("ReduceMin", reduces_nothing),
    ("ReduceMax", reduces_nothing),
)


class ArithmeticSimplifyPass(Pass):
    """The exact rules of MindSpore's graph kernel fusion; each pattern is named after the number of
    its rule.

    before   x + 0, x − 0, x − c, x ^ 1, x ^ 2, Where(c, x, x), −(−x), x · 1, (−x) · c, x / 1; for
             integers also x + (−x), ReduceSum(−x), ReduceSum(ReduceSum(x)), and Not of a
             comparison; ReduceMin of ReduceMin, ReduceMax of ReduceMax; Reduce over axes of size 1;
             two Transposes or two Reshapes in a row; Slice of all elements; Cast to the same type
    after    x, x + (−c), x · x, x · (−c), 0, −ReduceSum(x), the opposite comparison, one Reduce,
             Transpose or Reshape
    refuses  a constant that may enlarge the result; x ^ 2 of floating-point numbers, if the
             exponent has several elements or the last axis may have a single element, because it is
             not known that onnxruntime then computes the power as x · x; a large constant that is
             used elsewhere; a square whose mean is taken, and a vector of ones that scales
             x / √(mean of squares), because runtimes recognize normalizations by these
    never    x + 0, x − (−0) and ReduceSum over axes of size 1 if x may be −0, because these return
             0 for −0; rules 1.6, 1.38 and 1.39, which round (PowToMulPass,
             MatMulBiasAddFusionPass); rule 1.11, which is not faster and hides a normalization from
             onnxruntime; rules 1.17 to 1.20, 1.30 and 1.31, for which ONNX lacks operators; rules
             1.22 and 1.24 (Dim1TransposeToSqueezePass); rule 1.36, which equals rule 1.35
    algebra  each rule is an identity, also for NaN, infinities and integers that wrap around
    source   MindSpore's arithmetic_simplify, rules 1.0 to 1.39
    """

    aliases = ("AlgebraicSimplificationPass",)
    patterns = (
        _drop_zero("1.0", x + c, -1.0),
        Pattern("1.1", op.Add(x, op.Neg(x)), lambda m, new: zeros(new, m.x), where=_has_integers),
        _drop_zero("1.2", x - c, 1.0),
        Pattern("1.3", x - c, lambda m, new: new.Add(m.x, negated(new, m.c))),
        _neutral("1.4", x**c, 1),
        Pattern("1.5", x**c, _exact_square, where=c_is(2)),
        Pattern("1.7", op.Where(var("c"), x, x), _select),
        Pattern("1.8", op.Neg(op.Neg(x)), lambda m, new: m.x),
        Pattern("1.9", x * c, drop_one, where=c_is(1)),
        Pattern("1.10", op.Mul(op.Neg(x), c), lambda m, new: new.Mul(m.x, negated(new, m.c))),
        _neutral("1.12", x / c, 1),
        Pattern("1.13", reduce_twice("ReduceSum"), join_reduces, where=_has_integers),
        Pattern("1.14", reduce_twice("ReduceMin"), join_reduces),
        Pattern("1.15", reduce_twice("ReduceMax"), join_reduces),
        Pattern(
            "1.16",
            op.ReduceSum(op.Neg(x), rest("axes"), _as="sum"),
            _sum_of_negatives,
            where=_has_integers,
        ),
        Pattern("1.21", _TWICE, transpose_transpose, where=_undoes),
        Pattern(
            "1.23",
            op.Reshape(op.Reshape(x, rest("options")), var("shape"), _as="second"),
            reshape_reshape,
        ),
        Pattern("1.25", op.Slice(x, rest("options")), lambda m, new: m.x, where=slices_nothing_off),
        *(
            Pattern(f"1.{26 + i}", op.Not(op[name](x, y)), _not(opposite), where=_has_integers)
            for i, (name, opposite) in enumerate(_OPPOSITE)
        ),
        *(
            Pattern(f"1.{32 + i}", reduce_once([name]), drop_reduce, where=where)
            for i, (name, where) in enumerate(_OF_ONE_ELEMENT)
        ),
        Pattern("1.35", op.Cast(x, _as="cast"), lambda m, new: m.x, where=casts_nothing),
        Pattern("1.37", _TWICE, transpose_transpose),
    )
