"""Layers are alike: onnx is asked about each kind of node once."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from harness import parse

from fusionc.shapes import onnx_inference
from fusionc.shapes.inference import infer_node, typed_model


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The nodes that onnx was asked about."""
    found: list[Any] = []
    ask = onnx_inference.output_types

    def noted(node: onnx.NodeProto, *arguments: Any, **options: Any) -> Any:
        found.append(node.op_type)
        return ask(node, *arguments, **options)

    monkeypatch.setattr(onnx_inference, "output_types", noted)
    monkeypatch.setattr(onnx_inference, "_ANSWERS", {})
    return found


def test_equal_nodes_are_asked_about_once(asked: list[Any]) -> None:
    steps = " ".join(f"v{i + 1} = Relu (v{i})" for i in range(20))
    graph = typed_model(parse(f"agraph (float[N,4] v0) => (float[N,4] v20) {{ {steps} }}"), "").main
    assert graph.values["v20"].shape == ("N", 4)
    assert asked == ["Relu"]


def test_the_oldest_answer_makes_room(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that converts many models keeps the answers about the last one."""
    monkeypatch.setattr(onnx_inference, "_MAX_ANSWERS", 1)
    for op in ("Relu", "Neg", "Neg"):
        model = parse(f"agraph (float[N,4] x) => (float[N,4] y) {{ y = {op} (x) }}")
        assert typed_model(model, "").main.values["y"].shape == ("N", 4)
    assert asked == ["Relu", "Neg"] and len(onnx_inference._ANSWERS) == 1


def test_attributes_elements_and_types_tell_nodes_apart(asked: list[Any]) -> None:
    text = """
    agraph (float[2,3] x, float16[2,3] h) => (float[a,b] p, float[c,d] q, float16[e,f] r, float[k]
    s, float[m,n] t)
    <int64[1] six = {6}, int64[2] two = {3, 2}>
    {
        p = Transpose <perm = [1, 0]> (x)
        q = Transpose <perm = [0, 1]> (x)
        r = Transpose <perm = [1, 0]> (h)
        s = Reshape (x, six)
        t = Reshape (x, two)
    }
    """
    graph = typed_model(parse(text), "").main
    shapes = {name: graph.values[name].shape for name in "pqrst"}
    assert shapes == {"p": (3, 2), "q": (2, 3), "r": (3, 2), "s": (6,), "t": (3, 2)}
    assert len(asked) == 5


def test_an_unknown_dimension_is_another_one_each_time(asked: list[Any]) -> None:
    text = (
        "agraph (float[N] x, bool[N] c) => (float[a] p, float[b] q) { p = Compress (x, "
        "c) q = Compress (x, c) }"
    )
    graph = typed_model(parse(text), "").main
    assert graph.values["p"].shape != graph.values["q"].shape
    assert len(asked) == 1


def test_what_onnx_refuses_of_a_new_node_is_refused_though_the_model_has_it(
    asked: list[Any],
) -> None:
    """onnxruntime may have the operator for types that ONNX has not."""
    graph = typed_model(parse("agraph (bool[4] x) => (bool[4] y) { y = Relu (x) }"), "").main
    assert graph.values["y"].shape == (4,)
    node = next(iter(graph.nodes))
    for _ in range(2):
        with pytest.raises(onnx.checker.ValidationError):
            infer_node(node)
