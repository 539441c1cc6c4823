"""What is said of a quantized model: how it is written, what runs in integers, and what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import numpy_helper

from fusionc.inspect import quantized
from fusionc.inspect.finding import Finding
from fusionc.inspect.inspect_story import inspect

CONV = """agraph (float[1,8,6,6] x) => (float[1,8,6,6] y)
    <float s = {{0.1}}, {kind} z = {{{zero}}}, float ws = {{0.05}}, int8 wz = {{0}}> {{
    q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
    w = DequantizeLinear (W, ws, wz) [conv] c = Conv (d, w) {tail} }}"""
QUANTIZED = "r = QuantizeLinear (c, s, z) y = DequantizeLinear (r, s, z)"
RESIDUAL = """r = QuantizeLinear (c, s, z) e = DequantizeLinear (r, s, z) [sum] a = Add (e, d)
    t = QuantizeLinear (a, s, z) y = DequantizeLinear (t, s, z)"""
NOTHING = "nothing to do: no pass of a conversion replaces any of these operators"


def conv(kind: str, tail: str) -> onnx.ModelProto:
    model = parse(CONV.format(kind=kind, zero=0 if kind == "uint8" else -5, tail=tail))
    weights = np.random.default_rng(0).integers(-60, 60, (8, 8, 1, 1)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    return model


def found(model: onnx.ModelProto, folder: Path) -> dict[str, Finding]:
    onnx.save(model, folder / "m.onnx")
    return {finding.topic: finding for finding in inspect(folder / "m.onnx").findings}


def test_pairs_around_a_convolution_run_in_integers(tmp_path: Path) -> None:
    findings = found(conv("uint8", QUANTIZED), tmp_path)
    assert [*findings] == ["quantized"]
    text = findings["quantized"].text
    assert text.startswith("1 operator in QDQ pairs; ")
    assert "data in uint8, weights in int8, one scale for each tensor" in text
    assert "onnxruntime computes 1 of 1 in integers" in text
    assert findings["quantized"].to_do == NOTHING


def test_the_pass_for_signedness_is_named_from_the_dry_run(tmp_path: Path) -> None:
    finding = found(conv("int8", QUANTIZED), tmp_path)["quantized"]
    assert "data in int8, weights in int8" in finding.text
    assert finding.to_do.startswith("convert: QuantizedSignednessPass takes ")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("y = Relu (c)", "1 Conv: its result goes to Relu and is not quantized"),
        ("y = Identity (c)", "1 Conv: its result goes to Identity and is not quantized"),
    ],
)
def test_inputs_alone_are_dequantized(tail: str, reason: str, tmp_path: Path) -> None:
    findings = found(conv("uint8", tail), tmp_path)
    assert findings["quantized"].text.startswith("1 operator with QDQ on inputs only; ")
    assert "onnxruntime computes 0 of 1 in integers" in findings["quantized"].text
    in_float = findings["dequantized and computed in float32"]
    assert reason in in_float.text and in_float.places == ("conv",)


def test_onnxruntime_leaves_signed_values_with_two_readers_in_float(tmp_path: Path) -> None:
    """It is onnxruntime's own model that says so: by the rules of groups all would be integers."""
    signed = found(conv("int8", RESIDUAL), tmp_path)
    unsigned = found(conv("uint8", RESIDUAL), tmp_path)
    assert "computes 2 of 2 in integers" in unsigned["quantized"].text
    assert signed["quantized"].to_do.endswith("; then 2 run in integers")
    text = signed["dequantized and computed in float32"].text
    assert (
        "several operators read the values, and onnxruntime changes int8 to uint8 only for one reader"
        in text
    )


def test_weights_alone_are_dequantized(tmp_path: Path) -> None:
    model = parse("""agraph (float[2,8] x) => (float[2,8] y)
        <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1}> { w = DequantizeLinear (W, s) y = MatMul (x, w) }""")
    weights = np.ones((8, 8), np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    text = found(model, tmp_path)["quantized"].text
    assert text == (
        "1 operator with only the weights dequantized; weights in int8, one scale for each channel"
    )


def test_weights_are_cast(tmp_path: Path) -> None:
    model = parse("""agraph (float[2,8] x) => (float[2,8] y)
        <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> {
        v = Cast <to = 1> (W) w = Mul (v, s) y = MatMul (x, w) }""")
    weights = np.ones((8, 8), np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    text = found(model, tmp_path)["quantized"].text
    assert text == "1 operator with weights cast from integers; weights in int8"


def test_products_of_integers_and_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "has_vnni", lambda: False)
    model = parse("""agraph (float[2,8] x) => (int32[2,8] y) {
        q, s, z = DynamicQuantizeLinear (x) y = MatMulInteger (q, W, z) }""")
    weights = np.ones((8, 8), np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    text = found(model, tmp_path)["quantized"].text
    assert "1 operator on integers quantized while the model runs (dynamic)" in text
    assert "data in uint8, weights in int8" in text
    assert text.endswith("this processor lacks VNNI, without which integers gain less speed")


def test_stored_floats_that_are_quantized_are_weights(tmp_path: Path) -> None:
    """ModelOpt writes them so."""
    model = parse("""agraph (float[1,8,6,6] x) => (float[1,8,6,6] y)
        <float s = {0.1}, uint8 z = {3}, float ws = {0.05}, int8 wz = {0}> {
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        v = QuantizeLinear (W, ws, wz) w = DequantizeLinear (v, ws, wz) [conv] y = Conv (d, w) }""")
    weights = np.ones((8, 8, 1, 1), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    finding = found(model, tmp_path)["quantized"]
    assert "data in uint8, weights in int8, one scale for each tensor" in finding.text


def test_a_convolution_between_two_types(tmp_path: Path) -> None:
    """NNCF quantizes what follows a Relu without a sign, and what follows a sum with one."""
    tail = "r = QuantizeLinear (c, s, wz) y = DequantizeLinear (r, s, wz)"
    text = found(conv("uint8", tail), tmp_path)["dequantized and computed in float32"].text
    assert "1 Conv: its data are uint8 and its result is quantized to int8" in text
