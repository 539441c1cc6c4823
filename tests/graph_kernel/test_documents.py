"""The networks of MindSpore's documents become one area each, with the documents' results."""

from __future__ import annotations

import numpy as np
import onnx
from fused import fuse
from harness import parse, session

MY_NET = """agraph (float[4,4] x) => (float[4,4] res) <float two = {2}, float one = {1}> {
    a = Mul (x, two)  res = Add (a, one) }"""
MY_OP = """agraph (float[4,4] x, float[4,4] y) => (float[4,4] res) <float two = {2}, float three = {3}> {
    a = Mul (x, two)  b = Pow (a, three)  c = Sub (b, y)  res = Mul (c, b) }"""


def run(model: onnx.ModelProto, **feeds: float) -> np.ndarray:
    values = {name: np.full((4, 4), value, np.float32) for name, value in feeds.items()}
    result: np.ndarray = session(model).run(None, values)[0]
    return result


def test_multiplication_and_addition() -> None:
    result, fused = fuse(parse(MY_NET))
    assert [node.domain for node in result.graph.node] == ["fusionc.gk"]
    assert [node.op_type for node in fused.areas[0].nodes] == ["Mul", "Add"]
    np.testing.assert_array_equal(run(result, x=0.5), np.full((4, 4), 2, np.float32))


def test_the_custom_operator() -> None:
    result, fused = fuse(parse(MY_OP))
    assert [node.domain for node in result.graph.node] == ["fusionc.gk"]
    assert [node.op_type for node in fused.areas[0].nodes] == ["Mul", "Pow", "Sub", "Mul"]
    np.testing.assert_allclose(run(result, x=0.2, y=0.3), np.full((4, 4), -0.015104), rtol=1e-6)
