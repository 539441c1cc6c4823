"""What `model_diff` finds between models of fusionc, of other tools, and between a model and copies
that are changed by one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import TensorProto, helper, numpy_helper

import fusionc
from fusionc.diff.diff_story import ModelDiff, model_diff, summed
from fusionc.errors import UsageError

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

SAMPLES = Path(__file__).parents[2] / "sample_models"
RECORDED = Path(__file__).parent / "recorded"
Edit = Callable[[onnx.ModelProto], object]


def texts(found: ModelDiff) -> list[str]:
    """The changes, as many lines for equal ones as there are."""
    return [
        (
            f"{change.kind} "
            f"{'+'.join(n.operator for n in change.before)}>{'+'.join(n.operator for n in change.after)}"
        )
        for change in found.nodes.changes
    ]


def edited(edit: Edit, sample: str = "conv_bn") -> ModelDiff:
    model = onnx.load(SAMPLES / f"{sample}.onnx")
    edit(model)
    onnx.save(model, "edited.onnx")
    return model_diff(SAMPLES / f"{sample}.onnx", Path("edited.onnx"))


def test_what_fusionc_made_says_by_which_passes_and_of_which_nodes() -> None:
    fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx", verify=False)
    found = model_diff(SAMPLES / "conv_bn.onnx", Path("out.onnx"))
    assert texts(found) == [
        "replaced Conv+BatchNormalization+Relu>FusedConv",
        "replaced Conv+BatchNormalization+Clip>FusedConv",
        "replaced Pad+Conv+Mul+Add+LeakyRelu>FusedConv",
        "replaced ConvTranspose+BatchNormalization>ConvTranspose",
    ]
    first = found.nodes.changes[0]
    assert first.passes == ("ConvBatchnormFusionPass", "TbeConvElemwiseFusionPass")
    assert [node.name for node in first.before] == ["conv_0", "batchnormalization_1", "relu_2"]
    assert found.nodes.kept == {"name": 2} and not found.interface and not found.is_same
    assert (found.before.nodes, found.after.nodes) == (15, 6)
    assert found.after.unknown == 0, "of what onnx does not know, the other model knows the sizes"
    assert found.after.bytes_moved < found.before.bytes_moved


@pytest.mark.parametrize(
    "sample", ["conv_bn", "transformer_block", "control_flow", "split_concat", "matmul_bias"]
)
def test_every_node_is_in_both_or_in_one_change(sample: str) -> None:
    fusionc.convert(
        SAMPLES / f"{sample}.onnx",
        output="out.onnx",
        verify=False,
        enable_graph_kernel=True,
        target="onnx",
    )
    found = model_diff(SAMPLES / f"{sample}.onnx", Path("out.onnx"))
    moved = [change for change in found.nodes.changes if change.kind != "changed"]
    kept = sum(found.nodes.kept.values())
    assert kept + sum(len(change.before) for change in moved) == found.before.nodes
    assert kept + sum(len(change.after) for change in moved) == found.after.nodes


@pytest.mark.parametrize("ir_version", [9, 10])  # nodes have metadata from 10 on
def test_provenance_is_read_where_it_stands(ir_version: int) -> None:
    model = onnx.load(SAMPLES / "transformer_block.onnx")
    model.ir_version = ir_version
    onnx.save(model, "in.onnx")
    fusionc.convert(
        "in.onnx", output="once.onnx", verify=False, optimization_switch="LayerNormFusionPass:off"
    )
    fusionc.convert("once.onnx", output="twice.onnx", verify=False)
    norms = [
        c
        for c in model_diff(Path("in.onnx"), Path("twice.onnx")).nodes.changes
        if "Sqrt" in str(c.before)
    ]
    assert [[node.operator for node in change.after] for change in norms] == [
        ["LayerNormalization"]
    ] * 2
    assert {change.passes for change in norms} == {("LayerNormFusionPass",)}
    again = model_diff(Path("once.onnx"), Path("twice.onnx"))
    assert not any("BiasGelu" in str(change) for change in again.nodes.changes), (
        "what both models have is no change"
    )


@pytest.mark.parametrize(
    ("model", "tool", "changes"),
    [
        (
            "conv_bn",
            "onnxsim",
            {"removed BatchNormalization>": 3, "removed Pad>": 1, "changed Conv>Conv": 3},
        ),
        (
            "conv_bn",
            "onnxslim",
            {"removed BatchNormalization>": 3, "replaced Pad+Conv+Mul+Add>Conv": 1},
        ),
        (
            "transformer_block",
            "onnxslim",
            {"removed ReduceMean+Sub>": 2, "changed Transpose>Transpose": 1},
        ),
    ],
)
def test_results_of_other_tools_are_matched_by_name(
    model: str, tool: str, changes: dict[str, int]
) -> None:
    found = model_diff(SAMPLES / f"{model}.onnx", RECORDED / f"{model}_{tool}.onnx")
    assert {text: texts(found).count(text) for text in changes} == changes
    assert found.nodes.kept["name"] >= 8 and not found.interface


def test_onnxsim_made_layer_normalizations_of_many_operators() -> None:
    changes = model_diff(
        SAMPLES / "transformer_block.onnx", RECORDED / "transformer_block_onnxsim.onnx"
    ).nodes.changes
    (norm, times), *_ = [
        one for one in summed(changes) if "LayerNormalization" in str(one[0].after)
    ]
    assert times == 2 and [node.operator for node in norm.before].count("ReduceMean") == 3
    assert norm.passes == ()


def optimized_by_onnxruntime(sample: str, level: onnxruntime.GraphOptimizationLevel) -> ModelDiff:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "optimized.onnx"
    options.log_severity_level = 4
    options.graph_optimization_level = level
    onnxruntime.InferenceSession(
        SAMPLES / f"{sample}.onnx", options, providers=["CPUExecutionProvider"]
    )
    return model_diff(SAMPLES / f"{sample}.onnx", Path("optimized.onnx"))


# the latter has its convolutions in branches
@pytest.mark.parametrize("sample", ["conv_bn", "control_flow"])
def test_the_optimized_model_of_onnxruntime(sample: str) -> None:
    found = optimized_by_onnxruntime(sample, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    assert "replaced Conv+BatchNormalization+Relu>FusedConv" in texts(found)
    assert all(
        change.before and change.after
        for change in found.nodes.changes
        if "FusedConv" in str(change.after)
    )


def test_convolutions_in_the_layout_of_onnxruntime_are_found_one_by_one() -> None:
    found = optimized_by_onnxruntime("conv_bn", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    made = [change for change in found.nodes.changes if "nchwc.Conv" in str(change.after)]
    assert made and all(
        sum("Conv" in node.operator for node in change.before) == 1 for change in made
    )


@pytest.mark.parametrize(
    "sample", ["conv_bn", "transformer_block", "control_flow", "split_concat", "matmul_bias"]
)
def test_a_model_is_the_same_as_itself_and_as_one_with_other_names(sample: str) -> None:
    path = SAMPLES / f"{sample}.onnx"
    found = model_diff(path, path)
    assert found.is_same and not found.nodes.changes
    assert found.weights.changed == ()
    renamed = edited(rename, sample)
    assert renamed.is_same and renamed.nodes.kept["structure"] > renamed.nodes.kept.get("name", 0)
    assert sum(renamed.nodes.kept.values()) == sum(found.nodes.kept.values())
    assert (renamed.weights.renamed, renamed.weights.removed, renamed.weights.added) == (
        found.weights.equal,
        (),
        (),
    )


def rename(model: onnx.ModelProto) -> None:
    """Give all nodes, weights and inner values other names."""
    ports = {value.name for value in (*model.graph.input, *model.graph.output)}

    def name_of(name: str) -> str:
        return name if name in ports or not name else f"other_{name}"

    def visit(graph: onnx.GraphProto) -> None:
        for value in (*graph.initializer, *graph.value_info, *graph.input, *graph.output):
            value.name = name_of(value.name)
        for node in graph.node:
            node.name = name_of(node.name)
            for names in (node.input, node.output):
                names[:] = map(name_of, names)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    visit(attribute.g)

    visit(model.graph)


def one_node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.name == name)


def test_another_attribute() -> None:
    def edit(model: onnx.ModelProto) -> None:
        one_node(model, "leakyrelu_11").attribute[0].f = 0.5

    found = edited(edit)
    assert [change.details for change in found.nodes.changes] == [
        ("attributes alpha",)
    ] and not found.is_same


def test_a_default_that_is_written_out_is_no_difference() -> None:
    def edit(model: onnx.ModelProto) -> None:
        one_node(model, "conv_0").attribute.append(helper.make_attribute("group", 1))

    assert edited(edit).is_same


def test_another_weight() -> None:
    def edit(model: onnx.ModelProto) -> None:
        weight = next(
            w for w in model.graph.initializer if w.name == one_node(model, "conv_0").input[1]
        )
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 2, weight.name))

    found = edited(edit)
    assert [change.details for change in found.nodes.changes] == [("input 1 is another constant",)]
    assert len(found.weights.changed) == 1 and found.weights.equal == 21


def test_nodes_that_read_one_another() -> None:
    def edit(model: onnx.ModelProto) -> None:
        relu = model.graph.node.add(
            op_type="Relu", name="more", input=[model.graph.node[-1].output[0]], output=["more"]
        )
        relu.output[0] = relu.input[0]
        relu.input[0] = "before"
        model.graph.node[-2].output[0] = "before"

    assert texts(edited(edit)) == ["added >Relu"]


def test_two_values_that_change_places() -> None:
    value = helper.make_tensor_value_info
    ports = [value(name, TensorProto.FLOAT, [2]) for name in "abxy"]
    nodes = [
        helper.make_node("Sub", ["a", "b"], ["x"], "sub"),
        helper.make_node("Div", ["x", "b"], ["y"], "div"),
    ]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[3:])
    onnx.save(helper.make_model(graph), "one.onnx")
    nodes[0].input[:] = ["b", "a"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:2], ports[3:])), "two.onnx")
    (change,) = model_diff(Path("one.onnx"), Path("two.onnx")).nodes.changes
    assert change.details == ("input 0 is another value", "input 1 is another value")


BRANCHES = """agraph (float[N] x, bool c) => (float[N] y) {
    y = If (c) <then_branch = t () => (float[N] a) { a = Exp (x) }, else_branch = e () => (float[N] b) { b = Neg (x) }>
}"""
LOOP = """agraph (float[N] x, int64 n, bool c) => (float[N] y, float[N] z) { y, z = Loop (n, c, x, x) <body =
    g (int64 i, bool ci, float[N] s, float[N] t) => (bool co, float[N] so, float[N] to) {
        co = Identity (ci) so = Neg (s) to = Exp (t) }> }"""
CALL = """agraph (float[N] x) => (float[N] y) { a = my.f (x, x) y = Neg (a) }
    <domain: "my", opset_import: ["" : 17]> f (u, v) => (w) { r = Relu (v) w = Sub (r, u) }"""
TWO = "agraph (float[2] x) => (float[2] y, float[2] z) <float[2] z = {1, 2}> { y = Neg (x) }"
GIVEN = "agraph (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul (x, w) }"
# One thing in a model becomes another, and what is said of it.
CONNECTIONS = {
    "outputs change places": (
        "agraph (float[N] x) => (float[N] y, float[N] z) { y = Neg (x) z = Abs (x) }",
        {"y = Neg (x) z": "z = Neg (x) y"}, "y: this output is another value",
    ),
    "an output is another constant": (TWO, {"{1, 2}": "{1, 3}"}, "z: this output is another value"),
    "branches change places": (
        BRANCHES, {"then_": "_", "else_": "then_", "_branch = t ": "else_branch = t "},
        "then_branch: output 0 is another value",
    ),
    "nodes of branches change places": (
        BRANCHES, {"a = Exp (x)": "a = Neg (x)", "b = Neg (x)": "b = Exp (x)"}, "is in another graph",
    ),
    "inputs of a loop change places": (LOOP, {"s, float[N] t)": "t, float[N] s)"}, "body: input 2 is another value"),
    "outputs of a loop change places": (
        LOOP, {"so, float[N] to)": "to, float[N] so)"}, "body: output 1 is another value",
    ),
    "inputs of a function change places": (CALL, {"(u, v)": "(v, u)"}, "function my.f: input 0 is another value"),
    "an input in place of what is computed": (
        "agraph (float[N] x) => (float[N] y) { a = Exp (x) b = Neg (a) y = Add (b, a) }",
        {"(b, a)": "(b, x)"}, "input 1 is another value",
    ),
    "what an input is that is not given": (
        GIVEN, {"{1, 2}": "{1, 3}"}, "w: this input has another default value"
    ),
}  # fmt: skip


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_another_connection(connection: str) -> None:
    text, changes, said = CONNECTIONS[connection]
    onnx.save(parse(text), "one.onnx")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    onnx.save(parse(text), "two.onnx")
    assert model_diff(Path("one.onnx"), Path("one.onnx")).is_same
    found = model_diff(Path("one.onnx"), Path("two.onnx"))
    assert said in [
        *found.interface,
        *(detail for change in found.nodes.changes for detail in change.details),
    ]
    assert not found.is_same


def test_a_function_of_another_opset_stays() -> None:
    """Where an operator in it is another one there; else it is expanded."""
    onnx.save(parse(CALL.replace("17", "16")), "one.onnx")
    found = model_diff(Path("one.onnx"), Path("one.onnx"))
    assert found.is_same and not found.before.unknown
    onnx.save(parse(CALL.replace("17", "12").replace("Relu (v)", "ReduceMax (v)")), "one.onnx")
    found = model_diff(Path("one.onnx"), Path("one.onnx"))
    assert found.is_same and found.before.nodes == 4 and found.before.unknown


def test_another_interface_and_opset() -> None:
    def edit(model: onnx.ModelProto) -> None:
        model.graph.output[0].name = model.graph.node[-1].output[0] = "renamed"
        model.opset_import[0].version = 18

    found = edited(edit)
    assert len(found.interface) == 2 and not found.nodes.changes and not found.is_same
    assert found.after.opsets == {"ai.onnx": 18}


def test_operations_and_bytes_of_a_convolution_and_a_product() -> None:
    value = helper.make_tensor_value_info
    weights = {"w": np.ones((8, 4, 3, 3), np.float32), "m": np.ones((6, 5), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MatMul", ["c", "m"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["n", 4, 6, 6])], [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    path = Path("counted.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    measured = model_diff(path, path, {"x": (2, 4, 6, 6)}).before
    conv = 2 * (2 * 8 * 6 * 6) * (4 * 3 * 3)
    product = 2 * (2 * 8 * 6 * 5) * 6
    relu = 2 * 8 * 6 * 5
    assert measured.operations == conv + product + relu and measured.sizes == {"x": (2, 4, 6, 6)}
    x = 2 * 4 * 6 * 6
    c = 2 * 8 * 6 * 6
    d = 2 * 8 * 6 * 5
    assert measured.bytes_moved == 4 * ((x + 8 * 4 * 9 + c) + (c + 30 + d) + (d + d))
    assert model_diff(path, path).before.sizes == {"x": (1, 4, 6, 6)}
    with pytest.raises(UsageError, match="no model has an input z"):
        model_diff(path, path, {"z": (1,)})


def test_an_area_moves_what_goes_in_and_comes_out_and_computes_what_is_inside() -> None:
    value = helper.make_tensor_value_info
    names = ["x", "a", "b", "y"]
    operators = zip(["Exp", "Neg", "Abs"], names, names[1:], strict=False)
    nodes = [helper.make_node(op, [read], [made]) for op, read, made in operators]
    ports = [value(name, TensorProto.FLOAT, [1000]) for name in ("x", "y")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:])), "chain.onnx")
    fusionc.convert(
        "chain.onnx", output="area.onnx", verify=False, enable_graph_kernel=True, target="onnx"
    )
    found = model_diff(Path("chain.onnx"), Path("area.onnx"))
    assert texts(found) == [
        f"replaced Exp+Neg+Abs>fusionc.gk.{found.nodes.changes[0].after[0].operator[11:]}"
    ]
    assert (found.before.operations, found.after.operations) == (3000, 3000)
    assert (found.before.bytes_moved, found.after.bytes_moved) == (24000, 8000)


def test_branches_are_told_in_their_order() -> None:
    onnx.save(parse(BRANCHES), "one.onnx")
    _, changes, _ = CONNECTIONS["branches change places"]
    text = BRANCHES
    for old, new in changes.items():
        text = text.replace(old, new)
    onnx.save(parse(text), "two.onnx")
    found = model_diff(Path("one.onnx"), Path("two.onnx")).nodes.changes
    (change,) = [change for change in found if change.before and change.before[0].operator == "If"]
    said = ("then_branch: output 0 is another value", "else_branch: output 0 is another value")
    assert change.details == said


def test_sizes_follow_from_shapes_in_files_of_their_own() -> None:
    model = parse("agraph (float[2,6] x) => (float[a,b] y) { r = Reshape (x, s) y = Exp (r) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([3, 4]), "s"))
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = model_diff(Path("m.onnx"), Path("m.onnx"))
    assert Path("m.data").exists() and found.before.operations == 12 and not found.before.unknown
