"""Passes by the operators that they look for."""

from __future__ import annotations

import pytest

from fusionc.passes import PASSES
from fusionc.passes.by_operator import is_operator, operator_names, operators_of, patterns_with
from fusionc.rewrite import Pass, Pattern, either, keep, maybe, op, var
from fusionc.rewrite.pattern import ms

x = var("x")


class OwnPass(Pass):
    """Two patterns."""

    patterns = (
        Pattern(
            "Both",
            (
                op.Concat(either(op.Exp(x), keep(op["Max", "Min"](x, 1.0))), maybe(x)),
                op.Split(x)[1],
            ),
        ),
        Pattern("Contrib", ms.Gelu(x)),
        Pattern("Found", find=lambda graph: (), operators=("Slice",)),
        Pattern("Any", find=lambda graph: ()),
    )


def found(operator: str) -> list[str]:
    return [
        pattern.name for _, patterns in patterns_with(operator, [OwnPass()]) for pattern in patterns
    ]


def test_every_part_of_a_formula_counts() -> None:
    assert operators_of(OwnPass.patterns[0]) == {"Concat", "Exp", "Max", "Min", "Split"}


@pytest.mark.parametrize("name", ["Gelu", "com.microsoft.Gelu", "com.microsoft::Gelu"])
def test_a_contrib_operator_has_its_domain_or_none(name: str) -> None:
    assert found(name) == ["Contrib"]


def test_the_standard_domain_may_be_written() -> None:
    assert found("ai.onnx.Slice") == found("Slice") == ["Found"]


def test_an_operator_of_another_domain_is_another() -> None:
    assert not found("com.microsoft.Slice") and not found("own.Gelu")


def test_all_that_is_an_operator() -> None:
    assert {"Hardmax", "com.microsoft.Gelu", "ai.onnx.ml.Scaler", "Scaler"} <= operator_names(
        [OwnPass()]
    )
    assert is_operator("com.microsoft.BiasSplitGelu", PASSES) and is_operator(
        "ai.onnx.Hardmax", PASSES
    )
    assert not is_operator("Slise", PASSES) and not is_operator("com.microsoft.Slise", PASSES)
