"""Questions to a value: what they answer, and the one reason that each of them refuses with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import parse

from fusionc.rewrite import Match, Refused, not_constant, require_known, unknown
from fusionc.shapes.inference import typed_model

MODEL = parse(
    """agraph (float[N,4,5] x, bfloat16[2,3] h, float s) => (float[N,4,5] y, bfloat16[2,3] p, float z)
    <float[1] one = {0.5}, int64[2] axes = {0, 1}> {
        y = Relu (x) p = Relu (h) a = my.own.Unknown (x, one, axes) z = Abs (s)
    }""",
    opset=13,
)
GRAPH = typed_model(MODEL, "").main
VALUES = GRAPH.values


def ask(name: str, question: str, *arguments: Any, **named: Any) -> Any:
    return getattr(VALUES[name], question)(*arguments, **named)


def reason(question: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refusal:
        question()
    return refusal.value.reason


@pytest.mark.parametrize(
    ("answer", "name", "question", "arguments"),
    [
        (3, "x", "require_rank", ()),
        (3, "x", "require_rank", (2, 3)),
        (("N", 4, 5), "x", "require_shape", (3,)),
        ((2, 3), "h", "require_sizes", ()),
        (5, "x", "require_size", (-1, "the width")),
        (4, "x", "require_size", (1, "the height")),
        (np.float32, "x", "require_type", ()),
        (np.float32, "x", "require_type", (np.float16, np.float32)),
        (ml_dtypes.bfloat16, "h", "require_type", (ml_dtypes.bfloat16,)),
        (0.5, "one", "require_number", ("the factor",)),
        (0, "s", "require_rank", (0,)),
        ((), "s", "require_sizes", ()),
    ],
)
def test_answers(answer: object, name: str, question: str, arguments: tuple[Any, ...]) -> None:
    assert ask(name, question, *arguments) == answer


def test_a_constant_is_its_elements() -> None:
    assert ask("axes", "require_constant", "the axes").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "name", "question", "arguments"),
    [
        ("the rank is unknown", "a", "require_rank", (3,)),
        ("the rank is unknown", "a", "require_shape", ()),
        ("the rank is unknown", "a", "require_size", (0, "the number of channels")),
        ("the rank is not 4", "x", "require_rank", (4,)),
        ("the rank is not 2 or 4", "x", "require_shape", (2, 4)),
        ("the rank is not 0, 1 or 2", "x", "require_sizes", (0, 1, 2)),
        ("the rank is less than 4", "x", "require_size", (-4, "the depth")),
        ("the rank is less than 4", "x", "require_size", (3, "the depth")),
        ("the sizes are unknown", "x", "require_sizes", ()),
        ("the number of rows is unknown", "x", "require_size", (0, "the number of rows")),
        ("the element type is unknown", "a", "require_type", (np.float32,)),
        ("the elements are not float32", "h", "require_type", (np.float32,)),
        ("the elements are not float32 or int8", "h", "require_type", (np.float32, np.int8)),
        ("the axes are not constant", "x", "require_constant", ("the axes",)),
        ("the bias is not constant", "x", "require_number", ("the bias",)),
        ("the axis is not a single number", "axes", "require_number", ("the axis",)),
    ],
)
def test_reasons(text: str, name: str, question: str, arguments: tuple[Any, ...]) -> None:
    assert reason(lambda: ask(name, question, *arguments)) == text


def test_a_reason_names_the_value_if_the_rewrite_does() -> None:
    x = VALUES["x"]
    a = VALUES["a"]
    assert reason(lambda: a.require_rank(of="the mask")) == "the rank of the mask is unknown"
    assert reason(lambda: x.require_shape(2, of="the mask")) == "the rank of the mask is not 2"
    assert (
        reason(lambda: x.require_sizes(least=4, of="the mask"))
        == "the rank of the mask is less than 4"
    )
    assert reason(lambda: x.require_sizes(of="the mask")) == "the sizes of the mask are unknown"
    assert (
        reason(lambda: a.require_type(of="the mask")) == "the element type of the mask is unknown"
    )
    assert (
        reason(lambda: x.require_type(np.int32, of="the mask"))
        == "the elements of the mask are not int32"
    )


def test_answers_that_a_rewrite_finds_out_itself() -> None:
    assert require_known(0, "the axis") == 0
    assert reason(lambda: require_known(None, "the axis")) == "the axis is unknown"
    assert unknown("the number of heads") == "the number of heads is unknown"
    assert unknown("the sizes of the axis") == "the sizes of the axis are unknown"
    assert not_constant("the bounds") == "the bounds are not constant"


def test_an_older_opset() -> None:
    match = Match(GRAPH)
    match.require_opset(13, "Gemm does not broadcast")
    with pytest.raises(Refused, match="before opset 14 Reshape takes no zeros") as refusal:
        match.require_opset(14, "Reshape takes no zeros")
    assert refusal.value.opset == 14
