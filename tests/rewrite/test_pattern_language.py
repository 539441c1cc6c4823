"""Each word of the pattern language, in a graph as small as it can be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from harness import parse

from fusionc.rewrite import (
    Pattern,
    among,
    const,
    each,
    either,
    keep,
    known,
    maybe,
    op,
    rest,
    same,
    var,
)
from fusionc.rewrite.match import Match
from fusionc.rewrite.matcher import match
from fusionc.rewrite.pattern import Formula, ms, required
from fusionc.rewrite.pattern import names as captured
from fusionc.shapes.inference import typed_model

x = var("x")
y = var("y")


def find(
    formula: Formula | tuple[Formula, ...], body: str, constants: str = "", opset: int = 18
) -> Match | None:
    """Match at the node that makes `r`, in a graph of two inputs a, b and these nodes."""
    declared = f"<{constants}>" if constants else ""
    model = parse(
        f"agraph (float[2,2] a, float[2,2] b) => (float[n,m] r) {declared} {{ {body} }}", opset
    )
    anchor = typed_model(model, "").main.values["r"].producer
    assert anchor is not None
    formulas = Pattern("", formula).formulas
    return match(
        formulas, anchor, dict.fromkeys(name for each_ in formulas for name in captured(each_))
    )


def names(found: Match | None) -> dict[str, Any]:
    """What was captured, as names."""
    assert found is not None
    return {
        key: [v and (v.name or v.op) for v in value]
        if isinstance(value, list)
        else value and (value.name or value.op)
        for key, value in found.captures.items()
    }


def test_operands_of_commutative_operators_match_in_either_order() -> None:
    assert names(find(op.Relu(x) + y, "s = Relu (a) r = Add (b, s)")) == {"x": "a", "y": "b"}
    assert find(op.Relu(x) - y, "s = Relu (a) r = Sub (b, s)") is None


def test_an_order_that_fails_later_is_taken_back() -> None:
    found = find((x + y) * op.Neg(x), "s = Add (a, b) t = Neg (b) r = Mul (s, t)")
    assert names(found) == {"x": "b", "y": "a"}


@pytest.mark.parametrize("shape", ["", "[1]", "[1,1]"])
def test_a_number_is_a_constant_of_one_element(shape: str) -> None:
    found = find(x * 0.5, "r = Mul (a, c)", f"float{shape} c = {{0.5}}")
    assert found is not None and found.literal_rank == shape.count("1")


@pytest.mark.parametrize("written", ["0.505", "0.5000003"])
def test_a_number_that_is_not_quite_right(written: str) -> None:
    assert find(x * 0.5, "r = Mul (a, c)", f"float c = {{{written}}}") is None


def test_a_number_may_be_rounded() -> None:
    assert find(x * math.sqrt(2 / math.pi), "r = Mul (a, c)", "float c = {0.7978846}") is not None
    assert find(x * 0.5, "r = Mul (a, c)", "float[2] c = {0.5, 0.5}") is None
    assert find(x * 0.5, "r = Mul (a, b)") is None


def test_the_same_name_is_the_same_value() -> None:
    assert find(x * x, "r = Mul (a, a)") is not None
    assert find(x * x, "r = Mul (a, b)") is None


def test_the_same_formula_is_the_same_node() -> None:
    sigmoid = op.Sigmoid(x)
    assert find(sigmoid * sigmoid, "s = Sigmoid (a) r = Mul (s, s)") is not None
    assert find(sigmoid * sigmoid, "s = Sigmoid (a) t = Sigmoid (a) r = Mul (s, t)") is None
    assert (
        find(op.Sigmoid(x) * op.Sigmoid(x), "s = Sigmoid (a) t = Sigmoid (a) r = Mul (s, t)")
        is not None
    )


def test_alternatives() -> None:
    formula = either(op.Relu(x), op.Clip(x, 0.0))
    assert names(find(op.Neg(formula), "s = Clip (a, z) r = Neg (s)", "float z = {0}")) == {
        "x": "a"
    }
    assert find(op.Neg(formula), "s = Abs (a) r = Neg (s)") is None
    assert names(find(op["Relu", "Neg"](x, _as="f"), "r = Neg (a)")) == {"x": "a", "f": "Neg"}


def test_optional_inputs() -> None:
    formula = op.Clip(x, maybe(const("low")), maybe(const("high")))
    assert names(find(formula, "r = Clip (a)")) == {"x": "a", "low": None, "high": None}
    assert names(find(formula, "r = Clip (a, , c)", "float c")) == {
        "x": "a",
        "low": None,
        "high": "c",
    }
    assert find(op.Clip(x), "r = Clip (a, c)", "float c") is None


def test_all_remaining_inputs() -> None:
    assert names(find(op.Sum(x, rest("others")), "r = Sum (a, b, a)")) == {
        "x": "a",
        "others": ["b", "a"],
    }


def test_each_of_them() -> None:
    formula = op.Sum(each(op.Mul(var("v"), const("c"), _as="mul")))
    found = find(formula, "s = Mul (a, p) t = Mul (q, b) r = Sum (s, t)", "float p, float q")
    assert names(found) == {"v": ["a", "b"], "c": ["p", "q"], "mul": ["Mul", "Mul"]}
    assert found is not None and len(found.nodes) == 3
    assert find(formula, "s = Mul (a, p) r = Sum (s, b)", "float p") is None


def test_each_of_the_same() -> None:
    formula = op.Concat(each(op.Relu(same(op.Split(x, _as="split"))[...], _as="relu")))
    cut = "p, q = Split <num_outputs = 2> (a) u, v = Split <num_outputs = 2> (b) s = Relu (p)"
    found = find(formula, f"{cut} t = Relu (q) r = Concat <axis = 0> (s, t)")
    assert names(found) == {"x": "a", "split": "Split", "relu": ["Relu", "Relu"]}
    assert find(formula, f"{cut} t = Relu (u) r = Concat <axis = 0> (s, t)") is None


def test_at_least_one_of_them() -> None:
    formula = op.Concat(among(op.Neg(x, _as="neg")))
    assert names(find(formula, "s = Neg (b) r = Concat <axis = 0> (a, s)")) == {
        "x": "b",
        "neg": "Neg",
    }
    assert find(formula, "r = Concat <axis = 0> (a, b)") is None


def test_operators_without_which_a_graph_has_no_match() -> None:
    """A graph that lacks one is not searched."""
    split = op.Split(x)
    formula = op.Concat(
        each(op.Relu(same(split)[...])),
        among(keep(op.Neg(either(op["Erf", "Exp"](x), op.Abs(x))))),
        maybe(op.Sin(x)),
        op.Cos(either(op.Tan(x), y)),
        const("c"),
        rest("others"),
    )
    wanted = ["Concat", "Relu", "Split", "Neg", "Erf Exp Abs", "Cos"]
    assert [" ".join(name for _, name in some) for some in required(formula)] == wanted


def test_what_is_kept_is_not_replaced() -> None:
    found = find(op.Neg(keep(op.Relu(x))), "s = Relu (a) r = Neg (s)")
    assert found is not None and [node.op for node in found.nodes] == ["Neg"]


def test_a_constant_that_is_not_stored() -> None:
    body = "w = ConstantOfShape (s) r = Mul (a, w)"
    shape = "int64[2] s = {2, 2}"
    assert find(op.Mul(x, known("w")), body, shape) is not None
    assert find(op.Mul(x, const("w")), body, shape) is None
    assert find(op.Relu(known("w")), "r = Relu (a)") is None


def test_attributes_by_value_and_by_default() -> None:
    assert find(op.LeakyRelu(x, alpha=0.5), "r = LeakyRelu <alpha = 0.5> (a)") is not None
    assert find(op.Concat(x, y, axis=1), "r = Concat <axis = 0> (a, b)") is None
    assert find(op.Softmax(x, axis=-1), "r = Softmax (a)") is not None
    # the default was 1 then
    assert find(op.Softmax(x, axis=-1), "r = Softmax (a)", opset=11) is None
    assert find(op.Transpose(x, perm=[1, 0]), "r = Transpose <perm = [1, 0]> (a)") is not None


def test_outputs_by_number() -> None:
    body = "p, q = Split <num_outputs = 2> (a) r = Neg (q)"
    assert find(op.Neg(op.Split(x)[1]), body) is not None
    assert find(op.Neg(op.Split(x)), body) is None
    assert find(op.Neg(op.Split(x)[0]), body) is None
    assert find(op.Neg(op.Split(x)[...]), body) is not None


def test_other_domains() -> None:
    assert find(ms.Gelu(x), "r = com.microsoft.Gelu (a)") is not None
    assert find(op.Gelu(x), "r = com.microsoft.Gelu (a)") is None


def test_several_outputs() -> None:
    total = x + y
    found = find((op.Relu(total), total), "s = Add (a, b) r = Relu (s) t = Neg (s)")
    assert found is not None and [value.name for value in found.outputs] == ["r", "s"]
    siblings = (op.Relu(x), op.Neg(op.Abs(x)))
    found = find(siblings, "r = Relu (a) s = Abs (a) t = Neg (s)")
    assert found is not None and [value.name for value in found.outputs] == ["r", "t"]


def test_old_operators_that_align_at_an_axis_never_match() -> None:
    assert find(x + y, "r = Add <axis = 1, broadcast = 1> (a, b)", opset=6) is None
    assert find(x + y, "r = Add (a, b)", opset=6) is not None
