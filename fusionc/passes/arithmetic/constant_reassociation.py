import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.passes._shared.constant_arithmetic import (
    inverse,
    is_integer,
    joined_scale,
    numbers,
    product,
    rounded,
)
from fusionc.passes._shared.written_gelu import keep_gelu
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into


def _scaled(inner: Formula, constant: str, name: str) -> Formula:
    return either(
        op.Mul(inner, const(constant), _as=name), op.Div(inner, const(constant), _as=name)
    )


def _shifted(inner: Formula, constant: str, name: str) -> Formula:
    c = const(constant)
    return either(
        op.Add(inner, c, _as=name), op.Sub(inner, c, _as=name), op.Sub(c, inner, _as=name)
    )


def _shift(node: Node, constant: Edge) -> tuple[int, Array]:
    """The sign (1 or −1) and the addend with which a sum or difference equals sign · x + addend."""
    if node.op == "Add":
        return 1, numbers(constant)
    return (
        (-1, numbers(constant)) if node.inputs[0] is constant else (1, _negative(numbers(constant)))
    )


def _negative(array: Array) -> Array:
    return np.asarray(np.negative(array))


def _factors(m: Match, new: Tape) -> Result:
    keep_gelu(m.x)
    first = numbers(m.c)
    second = numbers(m.d)
    one = inverse(first) if m.inner.op == "Div" else first  # inverse refuses integers
    other = inverse(second) if m.outer.op == "Div" else second
    factor = joined_scale(one, other, m.c, m.d)
    if m.inner.op == m.outer.op == "Div":
        return new.Div(m.x, rounded(new, product(first, second), m.c, m.d))
    return new.Mul(m.x, rounded(new, factor, m.c, m.d))


def _addends(m: Match, new: Tape) -> Result:
    (sign, first) = _shift(m.inner, m.c)
    (outer_sign, second) = _shift(m.outer, m.d)
    if outer_sign < 0:
        sign = -sign
        first = _negative(first)
    total = np.asarray(first + second)
    if (
        not is_integer(total)
        and (np.abs(total) < np.maximum(np.abs(first), np.abs(second)) / 4).any()
    ):
        refuse("the constants cancel each other, and may round x on purpose")
    constant = rounded(new, total, m.c, m.d)
    return new.Add(m.x, constant) if sign > 0 else new.Sub(constant, m.x)


def _affine(m: Match, new: Tape) -> Result:
    factor = numbers(m.c)
    outer = numbers(m.e)
    if outer.size != 1 and not broadcasts_into(outer.shape, m.x.shape):
        refuse("the outer factor may enlarge the inner product")
    factor = inverse(factor) if m.inner.op == "Div" else factor
    outer = inverse(outer) if m.outer.op == "Div" else outer
    sign, addend = _shift(m.middle, m.d)
    slope = rounded(
        new, joined_scale(factor if sign > 0 else _negative(factor), outer, m.c, m.e), m.c, m.e
    )
    return new.Add(new.Mul(m.x, slope), rounded(new, product(addend, outer), m.d, m.e))


class ConstantReassociationPass(Pass):
    """Constants that are multiplied or added one after the other become one constant.

    before   (x·c)·d, (x/c)/d and mixed forms; (x + c) + d, (x − c) − d, also with c − x, and mixed
             forms; (x·c + d)·e, also with divisions and differences
    after    x·cd, x/cd; x + (c + d), (c + d) − x; x·ce + de
    refuses  addends that cancel, because (x + c) − c rounds x; constants whose combination would be
             infinite, be too small for their type, or have more elements; a large constant that is
             used elsewhere; division of integers; an e that may enlarge x; the factor ½ of a
             written-out Gelu, because runtimes recognize Gelu by this factor
    algebra  · and + are associative, and · distributes over +: exact for integers, which wrap
             around, and exact up to rounding for floating-point numbers
    source   CANN's TfMergeSubFusionPass; image preprocessing, whose (x/255 − mean)/std has the form
             (x·c + d)·e
    """

    numerics = "rounding"
    aliases = ("TfMergeSubFusionPass",)
    patterns = (
        Pattern("Factors", _scaled(_scaled(var("x"), "c", "inner"), "d", "outer"), _factors),
        Pattern("Addends", _shifted(_shifted(var("x"), "c", "inner"), "d", "outer"), _addends),
        Pattern(
            "Affine",
            _scaled(_shifted(_scaled(var("x"), "c", "inner"), "d", "middle"), "e", "outer"),
            _affine,
        ),
    )
