"""Why each DequantizeLinear stays: what reads it, and what passes have against taking it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from harness import parse
from onnx import TensorProto, numpy_helper

from fusionc.api import why
from fusionc.why.dequantizations import DEQUANTIZATION, Dequantization

MODEL = """agraph (float[1,8,6,6] x) => (float[1,8,6,6] y)
    <float s = {{0.1}}, uint8 z = {{3}}, float ws = {{0.05}}, int8 wz = {{0}}> {{
    q = QuantizeLinear (x, s, z) [data] d = DequantizeLinear (q, s, z)
    [weights] w = DequantizeLinear (W, ws, wz) [conv] c = Conv ({data}, w) {tail} }}"""
ERF = """agraph (float[1,8,6,6] x) => (float[1,8,6,6] y) <float s = {0.1}, uint8 z = {3}> {
    q = QuantizeLinear (x, s, z) [data] d = DequantizeLinear (q, s, z) e = Erf (d)
    r = QuantizeLinear (e, s, z) y = DequantizeLinear (r, s, z) }"""


def stays(model: onnx.ModelProto, folder: Path) -> dict[str, Dequantization]:
    onnx.save(model, folder / "m.onnx")
    answer = why(folder / "m.onnx", DEQUANTIZATION)
    assert answer.as_json()["dequantizations"]
    return {one.node: one for one in answer.dequantizations}


def conv(tail: str, data: str = "d") -> onnx.ModelProto:
    model = parse(MODEL.format(tail=tail, data=data))
    weights = np.random.default_rng(0).integers(-60, 60, (8, 8, 1, 1)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    return model


def test_those_of_a_group_are_told_apart_from_that_of_the_output(tmp_path: Path) -> None:
    tail = "r = QuantizeLinear (c, s, z) [last] y = DequantizeLinear (r, s, z)"
    answers = stays(conv(tail), tmp_path)
    assert [*answers] == ["last", "data", "weights"]
    assert answers["last"].reason == "‹y› is an output of the graph"
    assert not answers["last"].is_in_group
    for name in ("data", "weights"):
        assert answers[name].is_in_group
        assert answers[name].reason.startswith("it is part of the group of Conv ‹conv›")


def test_a_result_that_is_not_quantized_is_the_reason(tmp_path: Path) -> None:
    answers = stays(conv("y = Softmax (c)"), tmp_path)
    wanted = "Conv ‹conv›: its weights are not all dequantized"
    assert {name: one.reason for name, one in answers.items()} == {"data": wanted}


def test_weights_alone_are_dequantized_at_load(tmp_path: Path) -> None:
    answers = stays(conv("e = Add (c, d) y = Softmax (e)", "x"), tmp_path)
    assert [*answers] == ["data"]
    assert answers["data"].reason == "Add ‹Add:e›: its operands are not all dequantized"


def test_an_operator_without_a_form_in_integers(tmp_path: Path) -> None:
    answers = stays(parse(ERF), tmp_path)
    assert (
        answers["data"].reason
        == "Erf ‹Erf:e›: onnxruntime does not compute this operator in integers"
    )


def test_one_node(tmp_path: Path) -> None:
    onnx.save(conv("y = Softmax (c)"), tmp_path / "m.onnx")
    answer = why(tmp_path / "m.onnx", DEQUANTIZATION, node="data")
    assert [one.node for one in answer.dequantizations] == ["data"]


def test_what_a_pass_has_against_it(tmp_path: Path) -> None:
    """int8 data would become uint8, if the graph did not give them out."""
    model = conv("r = QuantizeLinear (c, s, z) y = DequantizeLinear (r, s, z)")
    zero = next(one for one in model.graph.initializer if one.name == "z")
    zero.CopyFrom(numpy_helper.from_array(np.int8(3), "z"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("q", TensorProto.INT8, None))
    answers = stays(model, tmp_path)
    (refusal,) = answers["data"].refused
    assert refusal.startswith("QuantizedSignednessPass: QuantizeLinear ‹QuantizeLinear:q›: ")
    assert refusal.endswith("an output of the model holds the integers")
