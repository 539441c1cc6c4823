"""Formulas of dimensions, against Python's own arithmetic."""

from __future__ import annotations

import pytest

from fusionc.verify.inputs.formulas import evaluate, formula_of, symbols_of, with_sizes

SIZES = {"a": 7, "b_1": 3, "seq": 20}


@pytest.mark.parametrize(
    "text",
    [
        "a + 1",
        "a - b_1 - 2",
        "a - (b_1 - 2)",
        "2*a*b_1",
        "seq // b_1 * 2",
        "seq//(b_1*2)",
        "(a + b_1) * (seq - 1)",
        "((a))+0",
    ],
)
def test_as_in_python(text: str) -> None:
    formula = formula_of(text)
    assert formula is not None and evaluate(formula, SIZES) == eval(text, {}, SIZES)
    assert set(symbols_of(formula)) <= SIZES.keys()
    partly = with_sizes(text, {"a": 7})
    rest = formula_of(partly) if isinstance(partly, str) else None
    assert (partly if rest is None else evaluate(rest, SIZES)) == eval(text, {}, SIZES)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "",
        "+",
        "a +",
        "* a",
        "a b",
        "2a + 1",
        "f(a + 1)",
        "(a + 1",
        "a + 1)",
        "a ** 2",
        "a + 1.5",
        "a + ()",
        "-a",
    ],
)
def test_what_is_no_formula(text: str) -> None:
    assert formula_of(text) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("seq - a", "seq - 7"),
        ("a - seq", "7 - seq"),
        ("b_1 - a * seq", "b_1 - 7 * seq"),
        ("0 - seq * a", "0 - 7 * seq"),
        ("seq // a * 2", "2 * (seq // 7)"),
        ("(seq - a) * (b_1 + 1)", "b_1 * seq + seq - 7 - 7 * b_1"),
    ],
)
def test_what_is_left_is_a_formula(text: str, left: str) -> None:
    made = with_sizes(text, {"a": 7})
    before = formula_of(text)
    after = formula_of(left)
    assert made == left and before is not None and after is not None
    assert evaluate(before, SIZES) == evaluate(after, SIZES)


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["a"] * 10_000),
        "(" * 300 + "a" + ")" * 300 + "+ 1",
        " * ".join(f"(a{k} + b{k})" for k in range(25)),
        "1if + a",
        "0x10 + a",
        "a\n+ 1)",
        "lambda: a + 1",
    ],
)
def test_what_is_hostile_is_no_formula(text: str) -> None:
    assert formula_of(text) is None


@pytest.mark.parametrize("text", ["a // 0", "a / (b_1 - 3)", "a + c", " * ".join(["a"] * 100)])
def test_what_has_no_size(text: str) -> None:
    formula = formula_of(text)
    assert formula is not None and evaluate(formula, SIZES) is None
