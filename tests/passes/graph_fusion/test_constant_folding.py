from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import Fires, Stays, assert_same_numbers, effected, operators, optimize, parse, pass_of, tables
from onnx import TensorProto, helper, numpy_helper

ADD = "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, float[3] b{}> {{ c = {} y = Add (x, c) }}"
GROWS = "the model would grow by more than 1 MiB"

STAYS = [
    Stays("nothing is constant", "agraph (float[N,3] x) => (float[N,3] y) { y = Relu (x) }", None),
    Stays("a random operator", ADD.format("", "RandomNormal <shape = [3]> ()"), None),
    Stays("a random operator of a constant", ADD.format("", "Bernoulli (a)"), None),
    Stays("a custom operator", ADD.format("", "my.own.Thing (a)"), None),
    Stays("quantization", ADD.format(", uint8[3] q = {1,2,3}, float s = {0.1}", "DequantizeLinear (q, s)"), None),
    Stays(
        "an overridable default",
        "agraph (float[N,3] x, float[3] d = {1,2,3}) => (float[N,3] y) { c = Neg (d) y = Add (x, c) }",
        None,
    ),
    Stays(
        "4 MB out of 8 bytes",
        "agraph (float[N,1000] x) => (float[N,1000] y) <int64[2] s = {1000, 1000}> "
        "{ c = ConstantOfShape (s) y = MatMul (x, c) }",
        GROWS,
    ),
    Stays(
        "what cannot be computed",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, int64[1] s = {4}> { c = Reshape (a, s) y = Add (x, c) }",
        "onnxruntime cannot compute it",
        valid=False,
    ),
    Stays(
        "a sequence on the way",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, float[3] b, int64 i = {1}> "
        "{ s = SequenceConstruct (a, b) c = SequenceAt (s, i) y = Add (x, c) }",
        None,
    ),
    Stays(
        "CastLike of an input",
        "agraph (float[N,3] x, float16[1] z) => (float[N,3] y) { c = CastLike (z, x) y = Add (x, c) }",
        None,
    ),
    Stays(
        "a Constant node before IR version 4",
        "agraph (float[N,3] x) => (float[N,3] y) { c = Constant <value = float[3] {1, 2, 3}> () y = Add (x, c) }",
        None,
        opset=9,
        ir_version=3,
    ),
]

FIRES = [
    Fires("one node", ADD.format("", "Mul (a, b)"), ["Add"]),
    Fires("a chain is one rewrite", ADD.format("", "Mul (a, b) d = Neg (c)").replace("(x, c)", "(x, d)"), ["Add"]),
    Fires(
        "CastLike needs the type only",
        "agraph (float[N,3] x) => (float[N,3] y) <float16[3] a> { c = CastLike (a, x) y = Add (x, c) }",
        ["Add"],
    ),
    Fires(
        "several outputs, one unused",
        "agraph (float[N,3] x) => (float[N,3] y) <float[9] a> "
        "{ c, d, e = Split <axis = 0, num_outputs = 3> (a) f = Add (x, c) y = Add (f, e) }",
        ["Add", "Add"],
    ),
    Fires(
        "an empty result",
        "agraph (float[N,3] x) => (float[N,3] y, float[0] z) <float[3] a, int64[1] s = {0}> "
        "{ z = Slice (a, s, s) y = Add (x, a) }",
        ["Add"],
    ),
    Fires(
        "a graph output",
        "agraph (float[N,3] x) => (float[N,3] y, float[3] z) <float[3] a> { z = Neg (a) y = Add (x, z) }",
        ["Add"],
    ),
    Fires(
        "a Constant node",
        "agraph (float[N,3] x) => (float[N,3] y) { c = Constant <value = float[3] {1, 2, 3}> () y = Add (x, c) }",
        ["Add"],
    ),
    *[
        Fires(
            f"Constant {attribute}",
            f"agraph ({kind}[N] x) => ({kind}[N] y) {{ c = Constant <{attribute} = {value}> () y = Add (x, c) }}",
            ["Add"],
        )
        for attribute, kind, value in (
            ("value_float", "float", "1.5"),
            ("value_floats", "float", "[1.5]"),
            ("value_int", "int64", "7"),
            ("value_ints", "int64", "[7]"),
        )
    ],
    Fires("int8", ADD.format("", "Add (a, b)").replace("float[", "int32["), ["Add"]),
    Fires("opset 9, IR version 3", ADD.format("", "Mul (a, b)"), ["Add"], opset=9, ir_version=3),
]

test_stays, test_fires = tables("ConstantFoldingPass", STAYS, FIRES)


def weights_model(nodes: list[onnx.NodeProto], **weights: np.ndarray) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 512])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def fold(model: onnx.ModelProto) -> tuple[onnx.ModelProto, int, list[str]]:
    result, counts = optimize(model, [pass_of("ConstantFoldingPass")])
    return result, effected(counts), [reason for count in counts for reason in count.refused]


WEIGHT = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)  # 2 MiB


def test_weights_that_only_move_are_folded_whatever_their_size() -> None:
    model = weights_model(
        [helper.make_node("Transpose", ["W"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])], W=WEIGHT
    )
    result, count, _ = fold(model)
    assert count == 1 and operators(result) == {"MatMul": 1}
    assert_same_numbers(model, result, "rounding", {})  # onnxruntime packs constant weights


def test_a_weight_that_is_cut_into_pieces_counts_as_a_whole() -> None:
    model = weights_model(
        [
            helper.make_node("Split", ["W"], ["p", "q"], axis=0, num_outputs=2),
            helper.make_node("Transpose", ["p"], ["s"]),
            helper.make_node("Transpose", ["q"], ["t"]),
            helper.make_node("MatMul", ["x", "s"], ["u"]),
            helper.make_node("MatMul", ["x", "t"], ["v"]),
            helper.make_node("Add", ["u", "v"], ["y"]),
        ],
        W=WEIGHT,
    )
    result, count, _ = fold(model)
    assert count == 2 and operators(result) == {"MatMul": 2, "Add": 1}
    assert sum(len(t.raw_data) for t in result.graph.initializer) == WEIGHT.nbytes


def test_a_weight_that_is_used_elsewhere_is_not_doubled() -> None:
    model = weights_model(
        [
            helper.make_node("Transpose", ["W"], ["t"]),
            helper.make_node("MatMul", ["x", "t"], ["u"]),
            helper.make_node("MatMul", ["u", "W"], ["y"]),
        ],
        W=WEIGHT,
    )
    result, count, reasons = fold(model)
    assert (count, reasons) == (0, [GROWS]) and result == model


def test_the_budget_is_for_all_folds_together_and_the_small_ones_come_first() -> None:
    rows = {"large": 400, "middle": 200, "small": 100}  # 800, 400 and 200 KB out of 16 bytes each
    nodes, total = [], "x"
    for name in rows:
        nodes += [
            helper.make_node("ConstantOfShape", [f"{name}_shape"], [name]),
            helper.make_node("MatMul", ["x", f"{name}"], [f"{name}_product"]),
            helper.make_node("ReduceSum", [f"{name}_product"], [f"{name}_sum"]),
            helper.make_node("Add", [total, f"{name}_sum"], [f"{name}_total"]),
        ]
        total = f"{name}_total"
    nodes[-1].output[0] = "y"
    shapes = {f"{name}_shape": np.array([512, count]) for name, count in rows.items()}
    result, count, reasons = fold(weights_model(nodes, **shapes))
    assert (count, reasons) == (2, [GROWS])
    assert [node.output[0] for node in result.graph.node if node.op_type == "ConstantOfShape"] == ["large"]


@pytest.mark.parametrize("attribute", [{"value_string": "b"}, {"value_strings": ["b", "c"]}])
def test_strings(attribute: dict[str, object]) -> None:
    model = parse(
        """agraph (string[N] x) => (bool[N] y) { c = Constant () d = Identity (c) y = Equal (x, d) }""", opset=19
    )
    model.graph.node[0].attribute.append(helper.make_attribute(*next(iter(attribute.items()))))
    result, count, _ = fold(model)
    assert count > 0 and operators(result)["Equal"] == 1
    (tensor,) = result.graph.initializer
    assert list(tensor.string_data) == [b"b", b"c"][: len(tensor.string_data)]
