"""What onnxruntime computes in integers between DequantizeLinear and QuantizeLinear stays so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import operators, optimize, parse

import fusionc
from fusionc.integer_groups.group_parts import grade, is_core
from fusionc.integer_groups.wiring import Wiring
from fusionc.operators.integer_operators import BETWEEN, FLOAT_RESULT, INTEGERS, MADE
from fusionc.passes import PASSES
from fusionc.shapes.inference import typed_model

ON = [pass_ for pass_ in PASSES if pass_.default != "off"]
HEAD = """agraph
(uint8[1,8,6,6] a, uint8[1,8,6,6] b, uint8[4,16] r, uint8[2,4,16] t, float[4,16] f, bool which) =>
({type} y)
<float s = {{0.02}}, uint8 z = {{128}}, float o = {{0.05}}, uint8 n = {{0}}, uint8 m = {{128}},
 int8[8,8,3,3] W, int8[16,12] V, int8 zero = {{0}}, float ws = {{0.01}}, float[12] c, float[8] k,
 float e = {{0.3}},
 int32[12] qc, float cs = {{0.0002}}, int32 cz = {{0}}, float l = {{0}}, float h = {{12.75}}, float
 g = {{6}}>
{{ A = DequantizeLinear (a, s, z) B = DequantizeLinear (b, s, z) R = DequantizeLinear (r, s, z)
  T = DequantizeLinear (t, s, z) w = DequantizeLinear (W, ws, zero) v = DequantizeLinear (V, ws,
  zero)
  C = DequantizeLinear (qc, cs, cz) {core} {end} }}"""
Q = "y = QuantizeLinear (x, o, n)"
SIGNED = "y = QuantizeLinear (x, o, m)"
# What lies between, and whether onnxruntime computes it in integers.
GROUPS = [
    ("x = Conv (A, w)", Q, INTEGERS),
    ("x = Conv (A, w, k)", Q, INTEGERS),
    ("x = MatMul (R, v)", Q, INTEGERS),
    ("x = Gemm (R, v, C)", Q, INTEGERS),
    ("x = Gemm (R, v, c)", Q, INTEGERS),
    ("x = Gemm <beta = 0.5> (R, v, C)", Q, 0),
    ("x = Add (A, B)", Q, INTEGERS),
    ("x = Mul (A, B)", Q, INTEGERS),
    ("x = Sub (A, B)", Q, 0),
    ("x = Concat <axis = 1> (A, B)", Q, INTEGERS),
    ("x = Where (which, A, B)", Q, INTEGERS),
    ("x = Sigmoid (A)", Q, INTEGERS),
    ("x = LeakyRelu (A)", Q, INTEGERS),
    ("x = Softmax (A)", Q, INTEGERS),
    ("x = Tanh (A)", Q, 0),
    ("x = AveragePool <kernel_shape = [2, 2]> (A)", Q, INTEGERS),
    ("x = GlobalAveragePool (A)", Q, INTEGERS),
    ("p = Conv (A, w) x = Relu (p)", Q, INTEGERS),
    ("p = Conv (A, w) x = Relu (p)", SIGNED, 0),
    ("p = Conv (A, w) x = Clip (p, l, h)", Q, INTEGERS),
    ("p = Conv (A, w) x = Clip (p, l, g)", Q, 0),
    ("p = Conv (A, w) q = Transpose <perm = [0, 2, 3, 1]> (p) x = Relu (q)", Q, INTEGERS),
    ("p = Transpose <perm = [0, 1, 3, 2]> (A) x = Conv (p, w)", Q, INTEGERS),
    ("p = Add (A, B) x = Relu (p)", Q, INTEGERS),
    ("p = Add (A, B) x = Tanh (p)", Q, 0),
    ("p = MatMul (R, v) x = Add (p, c)", Q, INTEGERS),
    ("p = MatMul (R, v) q = Add (p, c) x = Relu (q)", Q, INTEGERS),
    ("p = MatMul (T, v) x = Add (p, c)", Q, INTEGERS),
    ("y = MatMul (T, v)", "", FLOAT_RESULT),
    ("y = Gemm (R, v, C)", "", FLOAT_RESULT),
    ("y = Gemm (R, v, c)", "", 0),
    ("x = MatMul (f, v)", Q, 0),
    ("x = Add (A, e)", Q, 0),
]
FLOATS = {*BETWEEN, "FusedConv", "FusedGemm"} - {"Concat", "Where"}


def model_of(core: str, end: str) -> onnx.ModelProto:
    model = parse(HEAD.format(core=core, end=end, type="uint8[?]" if end else "float[?]"), 17)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def at_load(model: onnx.ModelProto, folder: Path) -> Counter[str]:
    """The operators that onnxruntime makes of a model at its default level."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(folder / "at_load.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(model.SerializeToString(), options)
    return operators(onnx.load(folder / "at_load.onnx"))


@pytest.mark.parametrize(("core", "end", "expected"), GROUPS)
def test_groups_are_those_of_onnxruntime(
    core: str, end: str, expected: int, tmp_path: Path
) -> None:
    model = model_of(core, end)
    graph = typed_model(model, "", "onnxruntime-cpu").main
    grades = [grade(node, Wiring()) for node in graph.ordered() if is_core(node)]
    assert max(grades, default=0) == expected
    made = at_load(model, tmp_path)
    assert not expected or not FLOATS & made.keys(), made
    assert any(
        name.startswith(("Q", "MatMulInteger")) for name in set(made) - {"QuantizeLinear"}
    ) == bool(expected)


@pytest.mark.parametrize(("core", "end", "expected"), GROUPS)
def test_no_pass_takes_an_operator_out_of_a_group(
    core: str, end: str, expected: int, tmp_path: Path
) -> None:
    """A pass may make a product of integers of what was none."""
    model = model_of(core, end)
    result, _ = optimize(model, ON)
    before = at_load(model, tmp_path)
    after = at_load(result, tmp_path)
    floats = sum(before[name] for name in FLOATS)
    assert sum(after[name] for name in FLOATS) <= floats, (before, after)
    assert after["QuantizeLinear"] <= before["QuantizeLinear"]


def test_a_convolution_and_its_activation_are_refused_with_a_reason() -> None:
    result, counts = optimize(model_of("p = Conv (A, w) x = Relu (p)", Q), ON)
    assert not operators(result)["FusedConv"]
    reasons = {
        reason
        for count in counts
        for reason in count.refused
        if count.pass_name == "TbeConvElemwiseFusionPass"
    }
    assert reasons == {"onnxruntime could no longer compute Conv in integers after the rewrite"}


TWICE = (
    "p = Conv (A, w) x = QuantizeLinear (p, o, n) q = Conv (A, w) u = QuantizeLinear "
    "(q, {scale}, n)"
)


@pytest.mark.parametrize(("scale", "products"), [("e", 2), ("o", 1)])
def test_equal_products_are_merged_where_they_are_quantized_as_one(
    scale: str, products: int
) -> None:
    model = model_of(TWICE.format(scale=scale), "y = Max (x, u)")
    result, _ = optimize(model, ON)
    assert operators(result)["Conv"] == products


def test_a_bias_behind_a_product_of_integers_is_not_moved_into_floats() -> None:
    """onnxruntime would make a Gemm of floating-point numbers: another pass makes one operator on
    integers of it.
    """
    result, _ = optimize(model_of("p = MatMul (R, v) y = Add (p, c)", ""), ON)
    assert operators(result)["MatMulIntegerToFloat"] == 1
    assert MADE["com.microsoft", "MatMulIntegerToFloat"] == FLOAT_RESULT


def test_no_area_has_a_part_of_a_group(in_a_folder_of_its_own: None) -> None:
    core = "p = Add (A, B) x = Relu (p)"
    for tail, calls in ((Q, 0), ("q = Tanh (x) y = QuantizeLinear (q, o, n)", 1)):
        onnx.save(model_of(core, tail), "in.onnx")
        fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, target="onnx")
        result = onnx.load("out.onnx")
        assert sum(node.domain == "fusionc.gk" for node in result.graph.node) == calls


def test_a_group_of_float16_is_not_computed_in_integers(tmp_path: Path) -> None:
    model = parse(
        """agraph (uint8[4,16] r) => (uint8[4,12] y)
        <float s = {0.02}, uint8 z = {128}, int8[16,12] V, int8 zero = {0}>
        { R = DequantizeLinear (r, s, z) v = DequantizeLinear (V, s, zero) x = MatMul (R, v)
          y = QuantizeLinear (x, s, z) }""",
        21,
    )
    half = onnx.numpy_helper.from_array(np.array(0.02, np.float16), "s")
    model.graph.initializer[0].CopyFrom(half)
    (core,) = typed_model(model, "").main.by_operator[("", "MatMul")]
    assert grade(core, Wiring()) == 0
    assert at_load(model, tmp_path)["MatMul"] == 1
