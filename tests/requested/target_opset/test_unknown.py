"""Operators that onnx does not know stay as they are when a model is raised."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import assert_same_numbers, parse, session
from onnx import ModelProto

from fusionc.errors import UsageError
from fusionc.requested.target_opset import raise_opset

NORMS = """agraph (float[N,4] x) => (float[N,1] y) <float[4] s> {
    a = {op} <axis = -1, epsilon = 0.01> (x, s)
    b = com.microsoft.QuickGelu (a)
    y = ReduceMean <axes = [1]> (b) }"""
IN_BRANCHES = """agraph (float[N,4] x, bool c) => (float[N,4] y) <float[4] s> {
    y = If (c) <then_branch = t () => (float[N,4] p) { a = ReduceMean <axes = [1]> (x) b = Sub (x, a)
                    p = SimplifiedLayerNormalization <axis = -1> (b, s) },
                else_branch = e () => (float[N,4] q) { q = LayerNormalization (x, s) }> }"""


def raised(model: ModelProto, version: int = 23) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return raise_opset(copy, version)


@pytest.mark.parametrize("op", ["SimplifiedLayerNormalization", "LayerNormalization"])
def test_what_onnxruntime_has_besides(op: str) -> None:
    model = parse(NORMS.replace("{op}", op), 13)
    result = raised(model)
    assert [node.op_type for node in result.graph.node if node.op_type != "Constant"] == [
        op,
        "QuickGelu",
        "ReduceMean",
    ]
    assert result.graph.node[0] == model.graph.node[0]
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [
        ("", 23),
        ("com.microsoft", 1),
    ]
    assert_same_numbers(model, result, "rounding", {})


def test_in_subgraphs() -> None:
    model = parse(IN_BRANCHES, 16)
    assert_same_numbers(model, raised(model), "rounding", {})


def test_what_nobody_knows() -> None:
    """A plugin may have it."""
    text = "agraph (float[N,4] x) => (float[N,1] y) { a = NoSuchOperator <k = 3> (x)  y = ReduceMax <axes = [1]> (a) }"
    model = parse(text, 17)
    result = raised(model)
    assert result.graph.node[0] == model.graph.node[0]
    assert [node.op_type for node in result.graph.node] == [
        "NoSuchOperator",
        "Constant",
        "ReduceMax",
    ]


def test_what_would_become_an_operator_of_onnx() -> None:
    model = parse("agraph (float[N,4] x) => (float[N,4] y) { y = Swish (x) }", 17)
    with pytest.raises(
        UsageError,
        match="Swish is an operator of onnx only from opset 24 on: this node",
    ) as caught:
        raised(model, 24)
    assert caught.value.hint is not None and "give at most 23" in caught.value.hint
    assert raised(model, 23).graph == model.graph


TYPES = ["float float16", "float16 float", "double float", "float double", "float16 float16"]


@pytest.mark.parametrize("types", TYPES)
def test_normalizations_of_two_types(types: str) -> None:
    """onnxruntime takes them in front of opset 17, and the result has the type of the weights."""
    of_x, of_weights = types.split()
    text = f"agraph ({of_x}[5,4] x, {of_weights}[4] s, {of_weights}[4] b) => ({of_weights}[5,4] y)"
    model = parse(f"{text} {{ y = LayerNormalization (x, s, b) }}", 16)
    result = raised(model)
    onnx.checker.check_model(result, full_check=True)
    rng = np.random.default_rng(0)
    numpy = {"float": np.float32, "float16": np.float16, "double": np.float64}
    feeds = {
        name: rng.standard_normal((5, 4) if name == "x" else 4).astype(numpy[of_weights])
        for name in "xsb"
    }
    feeds["x"] = feeds["x"].astype(numpy[of_x])
    (ours,) = session(result).run(None, feeds)
    (theirs,) = session(model).run(None, feeds)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3 if "float16" in types else 1e-5, atol=1e-3)
