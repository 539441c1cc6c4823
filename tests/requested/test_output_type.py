"""--output_type: a Cast behind the outputs, which keep their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import ModelProto, TensorProto

import fusionc
from fusionc.errors import UsageError
from fusionc.requested.out_nodes import set_outputs
from fusionc.requested.output_type import cast_outputs, types_of_outputs

TWO = """agraph (float[N,4] x) => (float[N,4] y, float[N,4] z, int64[K] i) { y = Relu (x) z = Neg (y) i = Shape (z) }"""


def named(model: ModelProto) -> ModelProto:
    for node in model.graph.node:
        node.name = node.op_type.lower()
    return model


def after_cast(model: ModelProto, output_type: str) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    cast_outputs(copy, types_of_outputs(copy, output_type))
    onnx.checker.check_model(copy, full_check=True)
    return copy


def run(model: ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


X = np.array([[-1.5, 0, 2.25, 200]], np.float32)


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ("FP16", ("float16", "float16", "float16")),
        ("fp32", ("float32", "float32", "float32")),
        ("DOUBLE", ("float64", "float64", "float64")),
        ("UINT8", ("uint8", "uint8", "uint8")),
        ("INT64", ("int64", "int64", "int64")),
        ("relu:0:FP16", ("float16", "float32", "int64")),
        ("y:FP16;neg:0:INT32", ("float16", "int32", "int64")),
        ("shape:0:INT32;", ("float32", "float32", "int32")),
    ],
)
def test_names_and_types(given: str, types: tuple[str, ...]) -> None:
    model = named(parse(TWO))
    before = run(model, abs(X))
    after = run(after_cast(model, given), abs(X))
    assert list(after) == list(before) == ["y", "z", "i"]
    assert tuple(value.dtype.name for value in after.values()) == types
    for name, value in before.items():
        if name != "z":  # of a negative number as an unsigned one nothing is certain
            assert (after[name] == value.astype(after[name].dtype)).all()


def test_what_has_the_type_already_gets_no_cast() -> None:
    model = parse(TWO)
    assert after_cast(model, "y:FP32;i:INT64") == model


def test_what_reads_an_output_reads_what_it_was() -> None:
    model = parse(
        """agraph (float[N] x, bool c) => (float[N] y, float[N] z) { y = Relu (x)
            z = If (c) <then_branch = t () => (float[N] p) { p = Neg (y) },
                        else_branch = e () => (float[N] q) { q = Abs (y) }>
        }"""
    )
    model.graph.quantization_annotation.add(tensor_name="y")
    result = after_cast(model, "y:INT8")
    inner = {
        node.op_type: list(node.input) for a in result.graph.node[1].attribute for node in a.g.node
    }
    assert inner == {"Neg": ["y_float"], "Abs": ["y_float"]}
    assert result.graph.quantization_annotation[0].tensor_name == "y_float"
    assert [(v.name, v.type.tensor_type.elem_type) for v in result.graph.value_info] == [
        ("y_float", TensorProto.FLOAT)
    ]


def test_a_subgraph_may_call_something_else_so() -> None:
    model = parse(
        """agraph (float[N] x, int64 n, bool c) => (float[N] y, float[N] z) { y = Relu (x)
            z = Loop (n, c, y) <body = b (int64 i, bool go, float[N] s) => (bool more, float[N] r)
                { more = Identity (go) r = Neg (s) }> }"""
    )
    body = model.graph.node[1].attribute[0].g
    body.input[2].name = body.node[1].input[0] = "y"
    result = ModelProto()
    result.CopyFrom(model)
    cast_outputs(result, {"y": TensorProto.FLOAT16})
    assert list(result.graph.node[1].input) == ["n", "c", "y_float"]
    assert result.graph.node[1].attribute[0].g == body


def test_new_names_are_free() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y, float[N] y_float) { y = Relu (x) y_float = Neg (y) }"
    )
    result = after_cast(model, "y:FP16")
    assert list(result.graph.node[0].output) == ["y_float_1"]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("FP8", "'FP8' is not a type of outputs"),
        ("", "no type is given"),
        ("relu:0:FLOAT", "'FLOAT' is not a type of outputs"),
        ("a:FP16", "a is not an output of the model"),
        ("relo:0:FP16", "no node of the model computes relo:0"),
        ("y:FP16;relu:0:FP32", "y has two types"),
        ("FP16;FP32", "FP16 names no output"),
    ],
)
def test_what_makes_no_sense(given: str, what: str) -> None:
    model = named(parse("agraph (float[N] x) => (float[N] y) { y = Relu (x) a = Neg (x) }"))
    with pytest.raises(UsageError) as caught:
        after_cast(model, given)
    assert what in caught.value.what and caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "opset", "what"),
    [
        (
            "agraph (float[N] x) => (float[N] x) {}",
            18,
            "the output x is itself an input or a weight",
        ),
        (
            "agraph (string[N] x) => (string[N] y) { y = Identity (x) }",
            18,
            "the output y is not a tensor of numbers",
        ),
        (
            "agraph (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct (x) }",
            18,
            "is not a tensor of numbers",
        ),
        ("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", 5, "a Cast needs opset 6"),
    ],
)
def test_what_cannot_be_converted(text: str, opset: int, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        after_cast(parse(text, opset), "FP16")


CONV = """agraph (float[N,3,32,32] x) => (float[N,8,32,32] y)
    <float[8,3,3,3] W, float[8] s, float[8] b, float[8] m, float[8] v, float[8,1,1] k> {
    c = Conv <pads = [1,1,1,1]> (x, W) n = BatchNormalization (c, s, b, m, v) y = Mul (n, k)
}"""


@pytest.mark.parametrize(
    ("output_type", "place"), [("FP16", ""), ("UINT8", ""), ("INT32", "bn:0:")]
)
def test_a_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output_type: str, place: str
) -> None:
    """Folding rounds differently, so that a few of many integers differ by one: that is no fault of
    the passes. The node that is named is no longer there in the end.
    """
    monkeypatch.chdir(tmp_path)
    model = parse(CONV)
    model.graph.node[1].name = "bn"
    onnx.save(model, "in.onnx")
    where = {"out_nodes": "bn:0"} if place else {}
    report = fusionc.convert(
        "in.onnx", output="out.onnx", output_type=f"{place}{output_type}", **where
    )
    result = onnx.load("out.onnx")
    (output,) = result.graph.output
    expected = (
        TensorProto.FLOAT16 if output_type == "FP16" else TensorProto.DataType.Value(output_type)
    )
    assert (output.name, output.type.tensor_type.elem_type) == ("n" if place else "y", expected)
    assert report.operators_after == {"Conv": 1, "Cast": 1}
    assert report.verification is not None and report.verification.startswith("equal in ")
    onnx.checker.check_model(result, full_check=True)
    x = np.random.default_rng(0).uniform(0, 9, (2, 3, 32, 32)).astype(np.float32)
    before = run(after_cut_and_cast(model, output.name, output_type), x)
    after = run(result, x)
    difference = before[output.name].astype(np.float64) - after[output.name]
    assert (abs(difference) > (0 if expected != TensorProto.FLOAT16 else 1)).mean() < 0.01


def after_cut_and_cast(model: ModelProto, name: str, output_type: str) -> ModelProto:
    set_outputs(model, name, "")
    return after_cast(model, output_type)


@pytest.mark.parametrize("verify", [True, False])
def test_a_wrong_type_is_found_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(CONV), "in.onnx")
    monkeypatch.setattr("fusionc.attempt.attempt.typed_model", None)
    with pytest.raises(UsageError, match="is not a type of outputs"):
        fusionc.convert("in.onnx", output="out.onnx", output_type="FP8", verify=verify)


def test_an_output_that_is_computed_from_constants_is_cast(tmp_path: Path) -> None:
    text = "agraph (float[4] x) => (float[4] y, float[2] c) <float[2] a = {1, 2}> { y = Abs (x) c = Add (a, a) }"
    onnx.save(parse(text), tmp_path / "a.onnx")
    fusionc.convert(tmp_path / "a.onnx", output=tmp_path / "b", output_type="c:FP16")
    found = run(onnx.load(tmp_path / "b.onnx"), X[0])
    assert found["c"].dtype == np.float16 and found["c"].tolist() == [2, 4]


def test_the_new_name_is_nobodys() -> None:
    """Neither that of an input, nor of a weight, nor of what a value is only said to be."""
    model = parse("""agraph (float[4] x, float[4] y_float) => (float[4] y) <float[4] y_float_1 = {1, 2, 3, 4}>
        { z = Add (y_float, y_float_1) y = Mul (x, z) }""")
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("y_float_2", TensorProto.INT64, [7])
    )
    made = after_cast(model, "FP16")
    assert [node.output[0] for node in made.graph.node] == ["z", "y_float_3", "y"]


def test_an_output_that_is_listed_twice_gets_one_cast() -> None:
    model = parse("agraph (float[1,4] x) => (float[1,4] y) { y = Abs (x) }")
    model.graph.output.append(model.graph.output[0])
    made = ModelProto()
    made.CopyFrom(model)
    cast_outputs(made, types_of_outputs(made, "FP16"))
    assert [node.op_type for node in made.graph.node] == ["Abs", "Cast"]
    assert [
        value.dtype
        for value in onnxruntime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        ).run(None, {"x": X})
    ] == [np.float16] * 2
