from collections.abc import Callable

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constant_arithmetic import (
    check_fits,
    joined_scale,
    negated,
    numbers,
    rounded,
)
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into

Build = Callable[[Match, Tape], Result]
a = var("a")
b = var("b")
c = var("c")
d = var("d")
k = const("k")
q = const("q")


def _rsqrt(x: Formula) -> Formula:
    return either(op.Reciprocal(op.Sqrt(x)), 1 / op.Sqrt(x))


def _require_floats(build: Build) -> Build:
    def rewrite(m: Match, new: Tape) -> Result:
        require_floats(m.outputs[0])
        return build(m, new)

    return rewrite


def _require_no_shape_of_a(m: Match, *rest: Edge) -> None:
    """Refuse if the shape of the result may depend on the value a, which the new nodes do not
    read.
    """
    if not any(broadcasts_into(m.a.shape, value.shape) for value in rest):
        refuse("the removed value may have enlarged the result")


def _inverse_pair(m: Match, new: Tape) -> Result:
    _require_no_shape_of_a(m, m.b)
    return m.b


def _inverse_pair_of_sums(m: Match, new: Tape) -> Result:
    _require_no_shape_of_a(m, m.b, m.c)
    return new.Add(m.b, m.c)


def _log_of_power(m: Match, new: Tape) -> Result:
    if m.a.elem_type != m.b.elem_type:
        refuse("the exponent has another type than the base")
    return new.Mul(m.b, new.Log(new.Abs(m.a)))


def _power_of_exp(m: Match, new: Tape) -> Result:
    if m.a.elem_type != m.b.elem_type:
        refuse("the exponent has another type than the base")
    return new.Exp(new.Mul(m.a, m.b))


def _log_times(number: float) -> Build:
    return lambda m, new: new.Mul(new.const(number, dtype=m.a.dtype), new.Log(m.a))


def _constants(m: Match, new: Tape) -> Result:
    first = numbers(m.k)
    second = numbers(m.q)
    # The model may multiply by the constants in either order, so check the other order, too.
    joined_scale(second, first, m.k, m.q)
    return new.Mul(new.Mul(m.a, m.b), rounded(new, joined_scale(first, second, m.k, m.q), m.k, m.q))


def _negative_power(m: Match, new: Tape) -> Result:
    if numbers(m.k).dtype.kind == "u":
        refuse("the exponent is unsigned")
    return new.Mul(m.a, new.Pow(m.b, negated(new, m.k)))


def _scale_sum(m: Match, new: Tape) -> Result:
    if numbers(m.k).size != 1:
        refuse("the scale is not a single number")
    check_fits(m.k, m.a)
    total = new.node("ReduceSum", [m.a, *m.axes], like=m.sum)
    return new.node(m.inner.op, [total, new.const(np.reshape(numbers(m.k), ()), like=m.k)])


_RULES: dict[str, tuple[Formula, Build]] = {
    "2.0": (a * c + a * b, lambda m, new: new.Mul(m.a, new.Add(m.c, m.b))),
    "2.2": (op.Add(a + b, op.Neg(a)), _inverse_pair),
    "2.3": (op.Add(a + b, op.Neg(a) + c), _inverse_pair_of_sums),
    "2.4": (a * c - a * b, lambda m, new: new.Mul(m.a, new.Sub(m.c, m.b))),
    "2.6": (op.Log(op.Exp(a)), lambda m, new: m.a),
    "2.7": (op.Log(a**b), _log_of_power),
    "2.8": (op.Log(op.Sqrt(a)), _log_times(0.5)),
    "2.9": (op.Log(_rsqrt(a)), _log_times(-0.5)),
    "2.10": (op.Exp(a) ** b, _power_of_exp),
    "2.11": (op.Sqrt(a * a), lambda m, new: new.Abs(m.a)),
    "2.12": (_rsqrt(a**-2), lambda m, new: new.Abs(m.a)),
    "2.13": (_rsqrt(1 / a), lambda m, new: new.Sqrt(m.a)),
    "2.14": (_rsqrt(op.Reciprocal(a)), lambda m, new: new.Sqrt(m.a)),
    "2.15": (op.Mul(a * k, b * q), _constants),
    "2.17": (op.Exp(a) * op.Exp(b), lambda m, new: new.Exp(new.Add(m.a, m.b))),
    "2.18": (
        op.Mul(op.Exp(a) * c, op.Exp(b)),
        lambda m, new: new.Mul(new.Exp(new.Add(m.a, m.b)), m.c),
    ),
    "2.19": (
        op.Mul(op.Exp(a) * c, op.Exp(b) * d),
        lambda m, new: new.Mul(new.Exp(new.Add(m.a, m.b)), new.Mul(m.c, m.d)),
    ),
    "2.20": (op.Sqrt(a) * op.Sqrt(a), lambda m, new: m.a),
    "2.21": (
        op.Mul(a * op.Sqrt(b), c * op.Sqrt(b)),
        lambda m, new: new.Mul(new.Mul(m.a, m.b), m.c),
    ),
    "2.22": (op.Mul(a * op.Sqrt(b), op.Sqrt(b)), lambda m, new: new.Mul(m.a, m.b)),
    "2.23": (op.Sqrt(a) * op.Sqrt(b), lambda m, new: new.Sqrt(new.Mul(m.a, m.b))),
    "2.24": (_rsqrt(a) * _rsqrt(a), lambda m, new: new.Reciprocal(m.a)),
    "2.25": (op.Mul(a * _rsqrt(b), _rsqrt(b)), lambda m, new: new.Div(m.a, m.b)),
    "2.26": (op.Mul(a * _rsqrt(b), c * _rsqrt(b)), lambda m, new: new.Div(new.Mul(m.a, m.c), m.b)),
    "2.27": (_rsqrt(a) * _rsqrt(b), lambda m, new: new.Reciprocal(new.Sqrt(new.Mul(m.a, m.b)))),
    "2.28": (a * _rsqrt(a), lambda m, new: new.Sqrt(m.a)),
    "2.29": (op.Abs(a) * op.Abs(b), lambda m, new: new.Abs(new.Mul(m.a, m.b))),
    "2.30": (
        op.Mul(op.Abs(a) * c, op.Abs(b)),
        lambda m, new: new.Mul(new.Abs(new.Mul(m.a, m.b)), m.c),
    ),
    "2.31": (
        op.Mul(op.Abs(a) * c, op.Abs(b) * d),
        lambda m, new: new.Mul(new.Abs(new.Mul(m.a, m.b)), new.Mul(m.c, m.d)),
    ),
    "2.32": (op.Exp(a) / op.Exp(b), lambda m, new: new.Exp(new.Sub(m.a, m.b))),
    "2.34": (a / b**k, _negative_power),
    "2.35": (a / op.Sqrt(a), lambda m, new: new.Sqrt(m.a)),
    "2.37": (a / _rsqrt(b), lambda m, new: new.Mul(m.a, new.Sqrt(m.b))),
    "2.39": ((a / b) / (c / d), lambda m, new: new.Div(new.Mul(m.a, m.d), new.Mul(m.b, m.c))),
    "2.40": (op.Neg(a) / k, lambda m, new: new.Div(m.a, negated(new, m.k))),
    "2.41": ((a / b) / c, lambda m, new: new.Div(m.a, new.Mul(m.b, m.c))),
    "2.42": (a / (b / c), lambda m, new: new.Div(new.Mul(m.a, m.c), m.b)),
    "2.43": (op.ReduceSum(op.Div(a, k, _as="inner"), rest("axes"), _as="sum"), _scale_sum),
    "2.44": (op.ReduceSum(op.Mul(a, k, _as="inner"), rest("axes"), _as="sum"), _scale_sum),
}


class ArithmeticInexactPass(Pass):
    """The inexact rules of MindSpore's graph kernel fusion, which hold for real numbers only; each
    pattern is named after the number of its rule.

    before   sums and differences of products with a common factor; sums and products of a value and
             its inverse; products and quotients of roots, reciprocal roots, exponentials and
             absolute values; quotients of quotients; logarithms of powers, roots and exponentials;
             ReduceSum of a scaled value
    after    fewer operators, or cheaper ones
    refuses  integers; exponents whose type is not that of the base; a removed value that may
             determine the shape of the result; constants whose combination would be too large or
             too small for their type; before a ReduceSum, a scale that is not a single number
    never    rules 2.1, 2.16 and 2.38, which ConstantReassociationPass and RealDiv2MulsFusionPass
             apply; rule 2.5, which equals rule 2.4; rules 2.33 and 2.36, x / exp(y) and x / √y,
             whose replacements need more operators in ONNX
    algebra  correct for real numbers. With floating-point numbers, results may differ on overflow,
             and for 0, infinities, NaN, and negative operands of a root or a logarithm; the pass is
             therefore off by default
    source   the inexact rules of MindSpore's arithmetic_simplify, numbered in the order of its
             table
    """

    numerics = "approximate"
    default = "off"
    patterns = tuple(
        Pattern(rule, formula, _require_floats(build)) for rule, (formula, build) in _RULES.items()
    )
