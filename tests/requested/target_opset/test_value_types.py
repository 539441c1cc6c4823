"""Types of inner values that contradict what the nodes make: onnx gives up on them, a raise does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from harness import assert_same_numbers, parse, session
from onnx import ModelProto, TensorProto, helper

from fusionc.requested.target_opset import raise_opset

BOXES = """agraph (float[1,6,4] b, float[1,1,6] s) => (int64[N] y) <int64 k = {3}> {
    mid = NonMaxSuppression (b, s, k)  h = Identity (mid)  y = Shape (h) }"""
PICKED = "agraph (float[2,3] x) => (int64[N] y) <bool[2] k = {1,0}> { mid = Compress (x, k)  h = Abs (mid)  y = Shape (h) }"
BRANCHES = """agraph (float[2,3,4] x, bool c) => (float[2,3,8] y) {
    mid = Relu (x)
    y = If (c) <then_branch = t () => (float[2,3,8] p) { a = Concat <axis = 2> (mid, x) p = Softmax (a) },
                else_branch = e () => (float[2,3,8] q) { q = Concat <axis = 2> (mid, mid) }> }"""
WRONG = [
    pytest.param(BOXES, 10, [7], TensorProto.INT64, id="rank"),
    pytest.param(BOXES, 10, ["N", 77], TensorProto.INT64, id="size"),
    pytest.param(PICKED, 9, [3, 4], TensorProto.FLOAT, id="rank where shapes are not checked"),
    pytest.param(BRANCHES, 12, [2, 3], TensorProto.FLOAT, id="read in a subgraph"),
    pytest.param(BRANCHES, 12, [2, 3, 4], TensorProto.INT32, id="element type"),
]


def declared(text: str, opset: int, shape: Sequence[int | str], kind: int) -> ModelProto:
    model = parse(text, opset)
    model.graph.value_info.append(helper.make_tensor_value_info("mid", kind, shape))
    return model


@pytest.mark.parametrize(("text", "opset", "shape", "kind"), WRONG)
def test_what_a_model_says_wrongly_of_inner_values(
    text: str, opset: int, shape: list[int | str], kind: int
) -> None:
    right = declared(text, opset, shape, kind)
    del right.graph.value_info[:]
    result = raise_opset(declared(text, opset, shape, kind), 21)
    assert not result.graph.value_info
    onnx.checker.check_model(result, full_check=True)
    if text is BOXES:
        feeds = {
            "b": np.random.default_rng(0).random((1, 6, 4), np.float32),
            "s": np.ones((1, 1, 6), np.float32),
        }
        np.testing.assert_array_equal(
            session(result).run(None, feeds), session(right).run(None, feeds)
        )
    else:
        assert_same_numbers(right, result, "rounding", {})


def test_what_a_model_says_rightly_stays() -> None:
    model = declared(BRANCHES, 12, [2, "rows", 4], TensorProto.FLOAT)
    said = list(model.graph.value_info)
    assert list(raise_opset(model, 21).graph.value_info) == said
