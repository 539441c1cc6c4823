"""--out_nodes: other outputs, and what only the old ones needed is gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import assert_same_numbers, parse
from onnx import ModelProto, TensorProto, helper

import fusionc
from fusionc.errors import FusioncError, UsageError
from fusionc.requested.out_nodes import set_outputs

CHAIN = """agraph (float[N,4] x, float[4] unused) => (float[N,4] y, float[N,2] right) <float[4] k, float[4] late> {
    a = Mul (x, k) b = Relu (a) left, right = Split <axis = 1, num_outputs = 2> (b) c = Add (b, late) y = Neg (c)
}"""


def chain(opset: int = 18, ir_version: int = 10) -> ModelProto:
    model = parse(CHAIN, opset, ir_version)
    for node, name in zip(model.graph.node, ("mul", "relu", "split", "add", "neg"), strict=True):
        node.name = name
    return model


def after_cut(model: ModelProto, out_nodes: str) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    set_outputs(copy, out_nodes, "")
    return copy


def outputs(model: ModelProto) -> list[tuple[str, list[int | str]]]:
    return [
        (value.name, [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim])
        for value in model.graph.output
    ]


def nodes(model: ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


@pytest.mark.parametrize(
    ("given", "expected", "left"),
    [
        ("relu:0", [("b", ["N", 4])], ["mul", "relu"]),
        ("b", [("b", ["N", 4])], ["mul", "relu"]),
        ("split:1; split:0 ;", [("right", ["N", 2]), ("left", ["N", 2])], ["mul", "relu", "split"]),
        ("add:0;b", [("c", ["N", 4]), ("b", ["N", 4])], ["mul", "relu", "add"]),
        ("y", [("y", ["N", 4])], ["mul", "relu", "add", "neg"]),
        ("y;right", [("y", ["N", 4]), ("right", ["N", 2])], ["mul", "relu", "split", "add", "neg"]),
    ],
)
@pytest.mark.parametrize("ir_version", [3, 10])
def test_the_outputs_and_what_is_left(
    given: str, expected: list[tuple[str, list[int | str]]], left: list[str], ir_version: int
) -> None:
    result = after_cut(chain(ir_version=ir_version), given)
    assert (outputs(result), nodes(result)) == (expected, left)
    onnx.checker.check_model(result, full_check=True)
    stored = [tensor.name for tensor in result.graph.initializer]
    assert stored == ["k", *(["late"] if "add" in left else [])]
    assert [value.name for value in result.graph.input] == [
        "x",
        "unused",
        *(stored if ir_version < 4 else ()),
    ]


def test_the_values_are_those_of_the_model() -> None:
    model = chain()
    both = ModelProto()
    both.CopyFrom(model)
    del both.graph.output[:]
    both.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, ["N", 4]))
    assert_same_numbers(both, after_cut(model, "relu:0"), "bitwise", {})


def test_what_a_subgraph_needs_stays() -> None:
    model = parse(
        """agraph (float[N] x, bool c) => (float[N] y) <float[1] k> {
            h = Mul (x, k) i = Neg (x)
            v = If (c) <then_branch = t () => (float[N] p) { p = Relu (h) },
                        else_branch = e () => (float[N] q) { q = Identity (x) }>
            y = Add (v, i)
        }"""
    )
    result = after_cut(model, "v")
    assert [node.op_type for node in result.graph.node] == ["Mul", "If"]
    onnx.checker.check_model(result, full_check=True)


def test_what_was_declared_stays_declared() -> None:
    model = chain()
    model.graph.value_info.append(
        helper.make_tensor_value_info("b", TensorProto.FLOAT, ["rows", 4])
    )
    model.graph.value_info.append(
        helper.make_tensor_value_info("c", TensorProto.FLOAT, ["rows", 4])
    )
    result = after_cut(model, "b")
    assert outputs(result) == [("b", ["rows", 4])] and not result.graph.value_info
    result = after_cut(model, "c;split:0")
    assert [value.name for value in result.graph.value_info] == ["b", "right"]


def test_unused_weights_that_were_there_stay() -> None:
    model = chain()
    model.graph.initializer.add(name="spare", data_type=TensorProto.FLOAT, dims=[1], float_data=[1])
    # a caller may give it
    model.graph.input.append(helper.make_tensor_value_info("late", TensorProto.FLOAT, [4]))
    result = after_cut(model, "relu:0")
    assert [tensor.name for tensor in result.graph.initializer] == ["k", "late", "spare"]


@pytest.mark.parametrize(
    ("given", "what", "hint"),
    [
        ("", "no output is named", "conv1:0;relu2:1"),
        (";", "no output is named", "conv1:0;relu2:1"),
        ("b;relu:0", "b is named twice", "name each value once"),
        (
            "relo:0",
            "no node of the model computes relo:0",
            'did you mean "relu:0"? Give node:index or',
        ),
        ("relu:1", "the node relu has no output 1", "the outputs of the node are: b"),
        ("x", "no node of the model computes x", ""),
        ("k", "no node of the model computes k", ""),
        (
            "zzzzzz",
            "no node of the model computes zzzzzz",
            "the outputs of the model are: right, y. Give node:index or the name",
        ),
    ],
)
def test_what_is_not_there(given: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        after_cut(chain(), given)
    assert what in caught.value.what and hint in caught.value.hint and caught.value.exit_code == 2


def test_a_name_with_two_meanings() -> None:
    model = chain()
    model.graph.node[1].name = "mul"
    with pytest.raises(UsageError, match="mul:0 means several values: a, b"):
        after_cut(model, "mul:0")


def test_the_name_of_a_value_wins_over_that_of_a_node_with_a_number() -> None:
    model = chain()
    model.graph.node[1].output[0] = model.graph.node[2].input[0] = model.graph.node[3].input[0] = (
        "mul:0"
    )
    assert outputs(after_cut(model, "mul:0")) == [("mul:0", ["N", 4])]


def test_a_value_of_which_nothing_is_known() -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { a = own.op (x) y = Neg (a) }")
    with pytest.raises(FusioncError, match="the type of a is not known"):
        after_cut(model, "a")


def test_a_model_that_is_trained_keeps_its_outputs() -> None:
    model = chain()
    model.training_info.add()
    with pytest.raises(UsageError, match="training information"):
        after_cut(model, "b")


def test_a_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    samples = Path(__file__).parents[2] / "sample_models"
    model = onnx.load(samples / "conv_bn.onnx")
    inner = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    report = fusionc.convert(samples / "conv_bn.onnx", output="out.onnx", out_nodes=inner.output[0])
    result = onnx.load("out.onnx")
    assert [value.name for value in result.graph.output] == [inner.output[0]]
    assert "BatchNormalization" not in report.operators_after and report.nodes_after < 4
    assert report.verification is not None and report.verification.startswith("equal in ")
    set_outputs(model, inner.output[0], "")
    assert_same_numbers(model, result, "rounding", {"N": 2})


TREES = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
agraph (float[N,2] x, float[N,2] scale) => (string[N] label, seq(map(string, float)) all) {
    scaled = Mul (x, scale)
    label, scores = ai.onnx.ml.TreeEnsembleClassifier <
        class_ids = [0, 1], class_nodeids = [1, 2], class_treeids = [0, 0], class_weights = [1.0, 1.0],
        classlabels_strings = ["no", "yes"], nodes_falsenodeids = [2, 0, 0], nodes_featureids = [1, 0, 0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_nodeids = [0, 1, 2], nodes_treeids = [0, 0, 0],
        nodes_truenodeids = [1, 0, 0], nodes_values = [0.2, 0.0, 0.0]> (scaled)
    all = ai.onnx.ml.ZipMap <classlabels_strings = ["no", "yes"]> (scores)
}"""


def trees() -> ModelProto:
    model = onnx.parser.parse_model(TREES)
    del model.graph.output[0]  # so that nothing is declared of the label either
    return model


def test_where_inference_says_nothing_a_run_says_type_and_rank() -> None:
    result = after_cut(trees(), "label;scores;scaled")
    onnx.checker.check_model(result)
    assert outputs(result) == [("label", [""]), ("scores", ["", ""]), ("scaled", ["N", 2])]
    types = [value.type.tensor_type.elem_type for value in result.graph.output]
    assert types == [TensorProto.STRING, TensorProto.FLOAT, TensorProto.FLOAT]


def test_what_lies_behind_does_not_run() -> None:
    model = trees()
    model.graph.node.append(helper.make_node("op", ["scores"], ["never"], domain="own"))
    model.opset_import.add(domain="own", version=1)
    model.graph.output.append(helper.make_tensor_value_info("never", TensorProto.FLOAT, ["N"]))
    assert outputs(after_cut(model, "scores")) == [("scores", ["", ""])]


@pytest.mark.parametrize("is_external", [False, True])
def test_the_run_has_the_weights_where_they_lie_and_the_given_inputs(
    in_a_folder_of_its_own: None, is_external: bool
) -> None:
    """Which index fits, the weight says alone: the run takes the given one."""
    text = TREES.replace("float[N,2] scale", "int64[1] index").replace(
        "Mul (x, scale)", "Gather <axis = 0> (far, index)"
    )
    model = onnx.parser.parse_model(text)
    far = onnx.numpy_helper.from_array(np.ones((3000, 2), np.float32), "far")
    model.graph.initializer.append(far)
    onnx.save(
        model, "in.onnx", save_as_external_data=is_external, location="in.data", size_threshold=0
    )
    np.savez("inputs.npz", x=np.ones((2, 2), np.float32), index=np.array([2999]))
    fusionc.convert("in.onnx", output="out.onnx", out_nodes="scores", inputs="inputs.npz")
    assert outputs(onnx.load("out.onnx")) == [("scores", ["", ""])]


def test_a_part_that_does_not_run_has_no_type() -> None:
    model = trees()
    model.graph.node[0].CopyFrom(helper.make_node("op", ["x"], ["scaled"], domain="own"))
    model.opset_import.add(domain="own", version=1)
    with pytest.raises(FusioncError, match="the type of scores is not known") as caught:
        after_cut(model, "scores")
    assert "value_info" in caught.value.hint
