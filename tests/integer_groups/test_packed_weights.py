"""No rewrite lets onnxruntime round the other operand of dequantized weights."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from harness import operators, optimize, parse

from fusionc.integer_groups.packed_weights import takes_packed
from fusionc.integer_groups.wiring import Wiring
from fusionc.passes import PASSES
from fusionc.shapes.inference import typed_model

ON = [pass_ for pass_ in PASSES if pass_.default != "off"]
GRAPH = """agraph (float[M,{}] x, uint8[M,{}] q) => (float[?,?] y{}) <int8[{}] W, {} s, float f = {{0.1}},
    float one = {{1}}> {{ d = DequantizeLinear <axis = {}> (W, s) {} }}"""
TURNED = "t = Transpose {} (d) y = {} (x, t)"


def graph(
    body: str, scale: str = "float", axis: int = 0, dims: str = "36,32", more: str = ""
) -> str:
    rows = 32 if "Transpose" in body else 36
    return GRAPH.format(rows, rows, more, dims, scale, axis, body)


def optimized(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The operators that onnxruntime makes of a model."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return operators(onnx.load(options.optimized_model_filepath))


TURN = "<perm = [1, 0]>"
FORMS = {
    "plain": (graph("y = MatMul (x, d)"), 20, True),
    "a scale for each column": (graph("y = MatMul (x, d)", "float[32]", 1), 20, True),
    "Gemm": (graph("y = Gemm (x, d)"), 20, True),
    "a Gemm that scales": (graph("y = Gemm <alpha = 0.5> (x, d)"), 20, False),
    "Identity": (graph("t = Identity (d) y = MatMul (x, t)"), 20, True),
    "both": (graph("p = DequantizeLinear (q, f) y = MatMul (p, d)"), 20, False),
    "used elsewhere": (graph("y = MatMul (x, d) z = Abs (d)", more=", float[?,?] z"), 20, False),
    "used twice": (graph("y = MatMul (x, d) z = MatMul (x, d)", more=", float[?,?] z"), 20, False),
    "transposed": (graph(TURNED.format(TURN, "MatMul")), 20, False),
    "transposed at opset 21": (graph(TURNED.format(TURN, "MatMul")), 21, True),
    "transposed before a Gemm": (graph(TURNED.format(TURN, "Gemm")), 21, False),
    "in the default order": (graph(TURNED.format("", "MatMul")), 21, True),
    "scales, transposed": (graph(TURNED.format(TURN, "MatMul"), "float[36]"), 21, True),
    "scales, in the default order": (graph(TURNED.format("", "MatMul"), "float[36]"), 21, False),
    "one scale in a row, transposed": (graph(TURNED.format(TURN, "MatMul"), "float[1]"), 21, False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "opset", "is_packed"), FORMS.values(), ids=FORMS)
def test_what_onnxruntime_multiplies_packed(
    text: str, opset: int, is_packed: bool, tmp_path: Path
) -> None:
    model = parse(text, opset)
    products = [n for n in typed_model(model, "").main.nodes if n.is_op("MatMul", "Gemm")]
    assert any(takes_packed(product, Wiring()) for product in products) == is_packed
    if text.count("MatMul") < 2:  # of two equal products onnxruntime keeps one
        assert ("MatMulNBits" in optimized(model, tmp_path)) == is_packed


@pytest.mark.parametrize(
    "body",
    [
        TURNED.format("", "MatMul"),
        TURNED.format(TURN, "Gemm"),
        "y = MatMul (x, d) a = Abs (x) z = MatMul (a, d)",
        "y = MatMul (x, d) a = Abs (q) b = Cast <to = 1> (a) z = MatMul (b, d)",
        "t = Reshape (d, same) y = MatMul (x, t)",
    ],
)
@pytest.mark.parametrize("opset", [20, 21])
def test_the_default_passes_expose_no_weights(body: str, opset: int, tmp_path: Path) -> None:
    more = ", float[?,?] z" if " z = " in body else ""
    scales = "float[36]" if TURNED.format("", "MatMul") == body else "float"
    text = graph(body, scales, more=more)
    text = text.replace("float one", "int64[2] same = {36, 32}, float one")
    model = parse(text, opset)
    assert "MatMulNBits" not in optimized(model, tmp_path)
    result, _ = optimize(model, ON)
    assert "MatMulNBits" not in optimized(result, tmp_path)
