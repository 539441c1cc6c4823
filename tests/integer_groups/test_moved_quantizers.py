"""No rewrite lets onnxruntime move a dequantization of int8 to where it cannot load the model."""

from __future__ import annotations

import onnx
import onnxruntime as ort
import pytest
from harness import optimize, parse

from fusionc.integer_groups.moved_quantizers import is_moved
from fusionc.integer_groups.wiring import Wiring
from fusionc.passes import PASSES
from fusionc.shapes.inference import typed_model

ON = [pass_ for pass_ in PASSES if pass_.default != "off"]
GRAPH = """agraph (int8[1,4,4,4] q, uint8[1,4,4,4] u, float c, int8 r) => ({})
    <float s = {{0.1}}, float[4] many = {{1, 2, 3, 4}}, int8[4] zeros = {{1, 2, 3, 4}},
     int8 z = {{3}}, int8[1] row = {{3}}, uint8 w = {{3}}, int16 h = {{3}}, int64[1] first = {{0}},
     int64[1] two = {{2}}, int64[1] last = {{3}}, int64[3] sizes = {{4, 4, 4}},
     int8[2,2] weights = {{1, 2, 3, 4}}> {{ {} }}"""


def graph(body: str, results: str = "float o") -> str:
    return GRAPH.format(results, body)


D = "d = DequantizeLinear (q, s, z) "
T = "t = Transpose <perm = [0, 2, 3, 1]> (d) "
TWO = "float o, float p"
MIXED = "int8 o, float p"
FORMS = {
    "Transpose": (graph(D + "o = Transpose (d)"), True),
    "Reshape": (graph(D + "o = Reshape (d, sizes)"), True),
    "Squeeze": (graph(D + "o = Squeeze (d, first)"), True),
    "Unsqueeze": (graph(D + "o = Unsqueeze (d, first)"), True),
    "Slice": (graph(D + "o = Slice (d, first, two, last)"), True),
    "MaxPool": (graph(D + "o = MaxPool <kernel_shape = [2, 2]> (d)"), True),
    "Flatten": (graph(D + "o = Flatten (d)"), False),
    "Concat": (graph(D + "o = Concat <axis = 0> (d, d)"), False),
    "Identity": (graph(D + "o = Identity (d)"), False),
    "an operator between": (graph(D + "a = Relu (d) o = Transpose (a)"), False),
    "an operator after it": (graph(D + T + "o = Relu (t)"), True),
    "used by another operator": (graph(D + "p = Relu (d) o = Transpose (d)", TWO), True),
    "a graph output": (graph(D + "o = Transpose (d)", "float o, float d"), True),
    "quantized": (graph(D + T + "o = QuantizeLinear (t, s, z)", "int8 o"), False),
    "quantized, and used": (
        graph(D + T + "o = QuantizeLinear (t, s, z) p = Relu (t)", MIXED),
        False,
    ),
    "quantized after an operator": (
        graph(D + T + "a = Relu (t) o = QuantizeLinear (a, s, z)", "int8 o"),
        True,
    ),
    "quantized after two": (
        graph(D + T + "v = Reshape (t, sizes) o = QuantizeLinear (v, s, z)", "int8 o"),
        False,
    ),
    "quantized after two, the second one used": (
        graph(D + T + "v = Reshape (t, sizes) p = Relu (v) o = QuantizeLinear (v, s, z)", MIXED),
        True,
    ),
    "uint8": (graph("d = DequantizeLinear (u, s, w) o = Transpose (d)"), False),
    "without a zero point": (graph("d = DequantizeLinear (q, s) o = Transpose (d)"), False),
    "a zero point in a row": (
        graph("d = DequantizeLinear (q, s, row) o = Transpose (d)"),
        True,
    ),
    "a zero point from outside": (
        graph("d = DequantizeLinear (q, s, r) o = Transpose (d)"),
        False,
    ),
    "a scale from outside": (graph("d = DequantizeLinear (q, c, z) o = Transpose (d)"), False),
    "several scales": (
        graph("d = DequantizeLinear (q, many, zeros) o = Transpose (d)"),
        False,
    ),
    "weights": (graph("d = DequantizeLinear (weights, s, z) o = Transpose (d)"), False),
}


def loads(model: onnx.ModelProto) -> bool:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@pytest.mark.parametrize(("text", "is_fatal"), FORMS.values(), ids=FORMS)
def test_what_onnxruntime_cannot_load(text: str, is_fatal: bool) -> None:
    model = parse(text, 21)
    nodes = typed_model(model, "").main.nodes
    found = [is_moved(n, Wiring()) for n in nodes if n.is_op("DequantizeLinear")]
    assert any(found) == is_fatal
    assert loads(model) == (not is_fatal)
    assert loads(parse(text, 20))


@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("a = ReduceMean <keepdims = 0> (d, first) o = Relu (a)", "float o"),
        ("a = Sum (d) o = Transpose (a)", "float o"),
        ("a = Cast <to = 1> (d) e = Abs (a) o = ReduceMax <keepdims = 0> (e, first)", "float o"),
    ],
)
@pytest.mark.parametrize("opset", [20, 21])
def test_rewrites_leave_models_that_load(body: str, results: str, opset: int) -> None:
    model = parse(graph(D + body, results), opset)
    assert loads(model)
    assert loads(optimize(model, ON)[0])
