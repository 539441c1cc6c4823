"""What becomes float16 in a model, and what stays float32."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import TensorProto, helper, numpy_helper

from fusionc.requested.float16.customized_types import Form
from fusionc.requested.float16.lower_graph import Float16Lowering
from fusionc.requested.float16.precision_policy import PrecisionPolicy

HALF = TensorProto.FLOAT16
QUANTIZED = "it belongs to a quantized group"


@dataclass(frozen=True)
class Case:
    """A model, the nodes that stay in float32 with the reasons, and the operators of the result."""

    name: str
    graph: str
    stays: dict[str, str]
    operators: str
    mode: str = "fp16"
    opset: int = 18
    ir_version: int = 10
    feeds: dict[str, np.ndarray] = field(default_factory=dict)


X = "agraph (float[2,4] x) => (float[2,4] y)"
CASES = [
    Case("a chain", X + "<float[4,4] w> { m = MatMul (x, w) y = Relu (m) }", {}, "Cast MatMul Relu Cast"),
    Case(
        "an output in the middle",
        "agraph (float[2,4] x) => (float[2,4] m, float[2,4] y) <float[4,4] w>"
        " { m = MatMul (x, w) y = Relu (m) }",
        {},
        "Cast MatMul Relu Cast Cast",
    ),
    Case(
        "a subgraph reads a weight and a value",
        "agraph (float[2,4] x, bool c) => (float[2,4] y) <float[4,4] w> {"
        " m = MatMul (x, w)"
        " y = If (c) <then_branch = t () => (float[2,4] a) { a = MatMul (m, w) },"
        " else_branch = e () => (float[2,4] b) { b = Neg (m) }> }",
        {"If:y": "its subgraphs stay in float32"},
        "Cast MatMul Cast If",
        feeds={"c": np.array(True)},
    ),
    Case(
        "the mask of a row that hides every key",
        "agraph (float[2,4] x, float[2,4] hides) => (float[2,4] y) <float b = {-3.4e38}> {"
        " g = Mul (hides, b) s = Add (x, g) y = Softmax (s) }",
        {"Mul:g": "it has a constant that is infinite in float16"},
        "Mul Cast Clip Cast Add Softmax Cast",
        feeds={
            "x": np.array([[1, 2, 3, 4], [1, 1, 1, 1]], np.float32),
            "hides": np.array([[0, 1, 0, 0], [1, 1, 1, 1]], np.float32),
        },
    ),
    Case(
        "sizes and scales of Resize",
        "agraph (float[1,1,4,4] x) => (float[1,1,8,8] y)"
        " <float[4] s = {1.0, 1.0, 2.0, 2.0}, float[0] r> { y = Resize (x, r, s) }",
        {},
        "Cast Resize Cast",
    ),
    Case(
        "an operator without float16",
        "agraph (float[4] x) => (float[4] y) <float z = {0.0}, float o = {1.0}, float l = {4.0}>"
        " { r = Range (z, l, o) y = Add (x, r) }",
        {"Range:r": "its operator does not take float16"},
        "Range Cast Cast Add Cast",
    ),
    Case(
        "a Cast that is there",
        "agraph (int64[2,4] x) => (float[2,4] y) <float[4,4] w>"
        " { f = Cast <to = 1> (x) y = MatMul (f, w) }",
        {},
        "Cast Cast MatMul Cast",
        feeds={"x": np.ones((2, 4), np.int64)},
    ),
    Case(
        "a constant beyond float16",
        X + "<float big = {100000.0}, float[4,4] w> { m = Mul (x, big) y = MatMul (m, w) }",
        {"Mul:m": "it has a constant that is infinite in float16"},
        "Mul Clip Cast MatMul Cast",
        feeds={"x": np.full((2, 4), 0.25, np.float32)},
    ),
    Case(
        "a constant that vanishes",
        X + "<float tiny = {1e-12}> { a = Abs (x) y = Add (a, tiny) }",
        {"Add:y": "it has a constant that is 0 in float16"},
        "Cast Abs Cast Add",
    ),
    Case(
        "a limit beyond float16 limits nothing",
        X + "<float low = {0.0}, float high = {3.4e38}> { y = Clip (x, low, high) }",
        {},
        "Cast Clip Cast",
    ),
    Case(
        "an epsilon that vanishes",
        "agraph (float[2,4,3] x) => (float[2,4,3] y) <float[4] s, float[4] b>"
        " { y = InstanceNormalization <epsilon = 1e-12> (x, s, b) }",
        {"InstanceNormalization:y": "its epsilon 1e-12 is 0 in float16"},
        "InstanceNormalization",
    ),
    Case(
        "an epsilon of an operator that computes in float32 inside",
        X + "<float[4] s, float[4] b> { y = LayerNormalization <epsilon = 1e-12> (x, s, b) }",
        {},
        "Cast LayerNormalization Cast",
    ),
    Case(
        "a quantized group",
        X + "<float s = {0.1}, int8 z = {0}, int8[4,4] w> {"
        " q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)"
        " e = DequantizeLinear (w, s, z) m = MatMul (d, e)"
        " r = QuantizeLinear (m, s, z) f = DequantizeLinear (r, s, z) g = Neg (f) y = Abs (g) }",
        {"MatMul:m": QUANTIZED, "Neg:g": QUANTIZED},
        "QuantizeLinear DequantizeLinear DequantizeLinear MatMul QuantizeLinear DequantizeLinear"
        " Neg Cast Abs Cast",
    ),
    Case(
        "only the shape is read",
        "agraph (float[2,4] x) => (int64[2] y) <float[4,4] w> { m = MatMul (x, w) y = Shape (m) }",
        {},
        "Cast MatMul Shape",
    ),
    Case(
        "a weight that is shared between both types",
        "agraph (float[2,4] x, bool c) => (float[2,4] y, float[4,4] z) <float[4,4] w> {"
        " y = MatMul (x, w)"
        " z = If (c) <then_branch = t () => (float[4,4] a) { a = Identity (w) },"
        " else_branch = e () => (float[4,4] b) { b = Neg (w) }> }",
        {"If:z": "its subgraphs stay in float32"},
        "Cast MatMul If Cast",
        feeds={"c": np.array(False)},
    ),
    Case(
        "an old model lists its weights as inputs",
        X + "<float[4,4] w> { y = MatMul (x, w) }",
        {},
        "Cast MatMul Cast",
        opset=9,
        ir_version=3,
    ),
    Case(
        "a Constant node",
        X + "{ w = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> () y = Mul (x, w) }",
        {},
        "Cast Mul Cast",
    ),
    Case(
        "products take rounded inputs",
        X + "<float[4,4] w, float[4,4] v> { m = MatMul (x, w) r = Relu (m) y = MatMul (r, v) }",
        {"Relu:r": "the mode lowers only convolutions and matrix products"},
        "Cast Cast Cast MatMul Relu Cast Cast Cast MatMul",
        mode="cube_fp16in_fp32out",
    ),
    Case(
        "only products",
        X + "<float[4,4] w> { m = MatMul (x, w) y = Relu (m) }",
        {"Relu:y": "the mode lowers only convolutions and matrix products"},
        "Cast MatMul Cast Relu",
        mode="allow_fp32_to_fp16",
    ),
    Case(
        "gray nodes follow, black ones stay",
        X + "<float[4,4] w> { a = Abs (x) m = MatMul (a, w) r = Relu (m) e = Exp (r)"
        " n = Neg (e) y = Add (n, r) }",
        {
            "Abs:a": "the nodes before it compute in float32",
            "Exp:e": "the operator is on the black list",
            "Neg:n": "the nodes before it compute in float32",
        },
        "Abs Cast MatMul Relu Cast Exp Neg Cast Add Cast",
        mode="mixed_float16",
    ),
    Case(
        "rows of a table of weights",
        "agraph (int64[2] i) => (float[2,4] y) <float[4,4] w> { g = Gather (w, i) y = Relu (g) }",
        {},
        "Gather Relu Cast",
        mode="mixed_float16",
        feeds={"i": np.array([3, 0])},
    ),
]  # fmt: skip


def lowered(model: onnx.ModelProto, mode: str) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The lowered model, and the nodes that stay in float32, with the reasons."""
    policy = PrecisionPolicy(mode)
    policy.kept.find(model)
    lowering = Float16Lowering(model, "", "onnxruntime-cpu", policy)
    choices = lowering.choices()
    stays = {n.label(): c.reason for n, c in choices.items() if c.form is Form.FLOAT32}
    return lowering.lowered(choices), stays


def outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    made: list[np.ndarray] = session.run(None, feeds)
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_becomes_float16(case: Case) -> None:
    model = parse(case.graph, case.opset, case.ir_version)
    before = model.SerializeToString()
    result, stays = lowered(model, case.mode)
    assert model.SerializeToString() == before
    assert stays == case.stays
    assert [node.op_type for node in result.graph.node] == case.operators.split()
    assert list(result.graph.output) == list(model.graph.output)
    onnx.checker.check_model(result, full_check=True)
    feeds = dict(case.feeds)
    rng = np.random.default_rng(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in feeds and value.name not in stored:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    for expected, made in zip(outputs(model, feeds), outputs(result, feeds), strict=True):
        assert expected.dtype == made.dtype
        np.testing.assert_allclose(made, expected, rtol=4e-3, atol=4e-3)


def weights(model: onnx.ModelProto) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def test_weights_are_stored_once_in_the_type_that_is_read() -> None:
    case = {case.name: case for case in CASES}
    plain, _ = lowered(parse(case["a chain"].graph), "fp16")
    assert weights(plain) == {"w_float16": HALF}
    shared, _ = lowered(parse(case["a weight that is shared between both types"].graph), "fp16")
    assert weights(shared) == {"w": TensorProto.FLOAT, "w_float16": HALF}
    old, _ = lowered(parse(case["an old model lists its weights as inputs"].graph, 9, 3), "fp16")
    assert weights(old) == {"w_float16": HALF}
    assert [value.name for value in old.graph.input] == ["x", "w_float16"]


def test_a_weight_that_the_caller_may_override_stays() -> None:
    model = parse(X + "<float[4,4] w> { y = MatMul (x, w) }")
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 4]))
    result, _ = lowered(model, "fp16")
    assert weights(result) == {"w": TensorProto.FLOAT}
    assert [node.op_type for node in result.graph.node] == ["Cast", "Cast", "MatMul", "Cast"]


def test_declared_types_follow() -> None:
    model = parse(X + "<float[4,4] w> { m = MatMul (x, w) y = Relu (m) }")
    model.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, [2, 4]))
    result, _ = lowered(model, "fp16")
    assert [(v.name, v.type.tensor_type.elem_type) for v in result.graph.value_info] == [
        ("m_float16", HALF)
    ]


def test_the_sum_of_rounded_products_is_float32() -> None:
    """It is the product of NumPy on operands rounded to float16, beyond the range of float16."""
    model = parse(X + "<float[4,4] w> { y = MatMul (x, w) }")
    tensor = numpy_helper.from_array(np.full((4, 4), 300.1, np.float32), "w")
    model.graph.initializer[0].CopyFrom(tensor)
    result, _ = lowered(model, "cube_fp16in_fp32out")
    x = np.full((2, 4), 200.1, np.float32)
    (made,) = outputs(result, {"x": x})
    rounded = [a.astype(np.float16).astype(np.float32) for a in (x, np.full((4, 4), 300.1))]
    np.testing.assert_allclose(made, rounded[0] @ rounded[1], rtol=1e-6)
    assert made.min() > 65504


def test_a_function_of_the_model_stays() -> None:
    model = parse("agraph (float[2,4] x) => (float[2,4] y) { a = own.twice (x) y = Abs (a) }")
    body = [helper.make_node("Add", ["p", "p"], ["q"])]
    opsets = [helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("own", "twice", ["p"], ["q"], body, opsets))
    result, stays = lowered(model, "fp16")
    assert [*stays] == ["twice:a"]
    assert stays["twice:a"].startswith("the function that it calls stays in float32")
    assert [node.op_type for node in result.graph.node] == ["twice", "Cast", "Abs", "Cast"]
