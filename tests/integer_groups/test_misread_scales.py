"""onnxruntime takes several scales of dequantized operands for those of the columns, whatever their
axis is: no rewrite lets it do so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import optimize, parse

import fusionc
from fusionc.integer_groups.misread_scales import nodes_with_misread_scales
from fusionc.passes import PASSES
from fusionc.shapes.inference import typed_model

ON = [pass_ for pass_ in PASSES if pass_.default != "off"]
HEAD = """agraph (uint8[2,4] x, float k, uint8[1,4,3,3] image) => ({type} y)
<float s = {{0.1}}, uint8 z = {{3}}, float[2] rows = {{0.1, 0.3}}, uint8[2] zeros = {{3, 2}},
 uint8[4,4] W = {{1,9,2,8, 3,7,4,6, 5,5,6,4, 7,3,8,2}}, uint8[4,5] V,
 uint8[4,4,1,1] F = {{1,9,2,8, 3,7,4,6, 5,5,6,4, 7,3,8,2}},
 float[4] t = {{0.1, 0.9, 0.3, 1.7}}, uint8[4] u = {{0, 2, 1, 3}}, uint8[1,4,4] T,
 float[4] c = {{1, 2, 3, 4}}, float[4] e = {{4, 3, 2, 1}}, float one = {{0.5}}, int32[4] ic = {{5, 6, 7, 8}},
 float[4] st = {{0.01, 0.09, 0.03, 0.17}}, int64[1] four = {{4}}, int64[1] first = {{0}}, float o = {{0.5}}, uint8 n = {{0}},
 float[4,1,1] channels = {{1, 2, 3, 4}}>
{{ p = DequantizeLinear (x, s, z) i = DequantizeLinear (image, s, z) {body} }}"""
K = "q = DequantizeLinear <axis = 0> (W, t, u) "  # scales along the rows of the weights
N = "q = DequantizeLinear <axis = 1> (W, t, u) "
F0 = "q = DequantizeLinear <axis = 0> (F, t, u) "
F1 = "q = DequantizeLinear <axis = 1> (F, t, u) "
END = "y = QuantizeLinear (r, o, n)"

FEEDS = {
    "x": np.uint8([[1, 20, 30, 4], [5, 9, 33, 25]]),
    "k": np.array(2, np.float32),
    "image": np.arange(36, dtype=np.uint8).reshape(1, 4, 3, 3),
}

# What onnxruntime computes wrongly.
WRONG = [
    K + "y = MatMul (p, q)",
    K.replace("0", "-2") + "y = MatMul (p, q)",
    K.replace("W", "V") + "y = MatMul (p, q)",
    K + "r = MatMul (p, q) y = Relu (r)",
    K + "r = MatMul (p, q) y = Add (r, one)",
    K + "r = MatMul (p, q) a = Add (r, c) y = Mul (r, a)",
    K + "v = Identity (q) y = MatMul (p, v)",
    N + "r = Transpose <perm = [1, 0]> (q) y = MatMul (p, r)",
    N.replace("W", "T") + "y = MatMul (p, q)",
    K.replace("0", "2").replace("W", "T") + "y = MatMul (p, q)",
    N + "l = DequantizeLinear <axis = 0> (x, rows, zeros) y = MatMul (l, q)",
    K + "y = Gemm (p, q)",
    N + "y = Gemm <transB = 1> (p, q)",
    K + "b = DequantizeLinear (ic, s) y = Gemm (p, q, b)",
    K + "r = Gemm (p, q) " + END,
    F1 + "r = Conv (i, q) " + END,
]
# What it computes rightly, because something prevents the fusion; this must stay.
PREVENTED = [
    K + "r = MatMul (p, q) y = Add (r, c)",
    K + "r = MatMul (p, q) " + END,
    F1 + "y = Conv (i, q)",
    F1 + "r = Conv (i, q, c) " + END,
]
# What is right in any surroundings.
RIGHT = [
    N + "y = MatMul (p, q)",
    K + "r = Transpose (q) y = MatMul (p, r)",
    K + "y = Gemm <transB = 1> (p, q)",
    N + "b = DequantizeLinear <axis = 0> (ic, st) y = Gemm (p, q, b)",
    K + "y = Gemm (p, q, c)",
    "q = DequantizeLinear (W, s, z) y = MatMul (p, q)",
    "q = DequantizeLinear (T, s, z) y = MatMul (p, q)",
    K.replace("0", "1").replace("W", "T") + "v = Squeeze (q, first) y = MatMul (p, v)",
    K + "f = Mul (p, p) y = MatMul (f, q)",
    F0 + "r = Conv (i, q) " + END,
]
# What passes would bring into a form that onnxruntime computes wrongly.
EXPOSED = [
    K
    + "r = MatMul (p, q) a = Add (r, c) v = MatMul (p, q) b = Add (v, e) d = Tanh (a) y = Mul (d, b)",
    K + "w = Expand (k, four) r = MatMul (p, q) y = Add (r, w)",
    K + "r = MatMul (p, q) a = Add (r, c) y = BatchNormalization (a, c, e, c, e)",
]


def model_of(body: str) -> onnx.ModelProto:
    model = parse(HEAD.format(body=body, type="uint8[?]" if body.endswith(END) else "float[?]"), 17)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def outputs_of(model: onnx.ModelProto, is_optimized: bool, library: Path | None = None) -> list:
    """What onnxruntime computes with all of its optimizers or none."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not is_optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if library is not None:
        options.register_custom_ops_library(str(library))
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, FEEDS)


def is_wrong(model: onnx.ModelProto, reference: onnx.ModelProto) -> bool:
    """Whether onnxruntime's optimizers change what the model computes by more than a step, or make
    it fail.
    """
    (expected,) = outputs_of(reference, is_optimized=False)
    try:
        (actual,) = outputs_of(model, is_optimized=True)
    except Exception as error:  # onnxruntime has several classes
        assert "MatMulIntegerToFloat" in str(error)
        return True
    allowed = 1 if expected.dtype == np.uint8 else 1e-3
    return bool(np.abs(actual.astype(float) - expected).max() > allowed)


@pytest.mark.parametrize("body", [*WRONG, *PREVENTED, *EXPOSED])
def test_scales_are_misread_as_by_onnxruntime(body: str) -> None:
    model = model_of(body)
    assert is_wrong(model, model) == (body in WRONG)
    assert nodes_with_misread_scales(typed_model(model, "", "onnxruntime-cpu").main)


@pytest.mark.parametrize("body", RIGHT)
def test_other_scales_are_not_misread(body: str) -> None:
    model = model_of(body)
    assert not is_wrong(model, model)
    assert not nodes_with_misread_scales(typed_model(model, "", "onnxruntime-cpu").main)


@pytest.mark.parametrize("body", [*PREVENTED, *RIGHT, *EXPOSED])
def test_no_pass_exposes_a_product_to_a_wrong_fusion(body: str) -> None:
    model = model_of(body)
    result, _ = optimize(model, ON)
    assert not is_wrong(result, model)


@pytest.mark.parametrize("body", EXPOSED)
def test_a_rewrite_that_would_expose_a_product_is_refused_with_a_reason(body: str) -> None:
    _, counts = optimize(model_of(body), ON)
    reasons = {reason for count in counts for reason in count.refused}
    assert any("apply the scales along a wrong axis" in reason for reason in reasons), reasons


def test_no_kernel_takes_the_addition_away_from_such_a_product(tmp_path: Path) -> None:
    """The operators after the addition still become a kernel."""
    body = (
        K + "r = MatMul (p, q) a = Add (r, c) d = Tanh (a) f = Sin (d) g = Mul (f, d) y = Neg (g)"
    )
    model = model_of(body)
    onnx.save(model, tmp_path / "model.onnx")
    out = tmp_path / "out.onnx"
    fusionc.convert(tmp_path / "model.onnx", output=out, enable_graph_kernel=True)
    result = onnx.load(out)
    assert {"MatMul", "Add"} <= {node.op_type for node in result.graph.node}
    library = out.with_name("out.kernels.so")
    (actual,) = outputs_of(result, is_optimized=True, library=library)
    np.testing.assert_allclose(actual, *outputs_of(model, is_optimized=False), rtol=1e-4, atol=1e-4)
