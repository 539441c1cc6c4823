from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import (
    Fires,
    Stays,
    assert_same_numbers,
    effected,
    operators,
    optimize,
    parse,
    pass_of,
    seen_by_subgraph,
    tables,
)
from onnx import TensorProto, helper, numpy_helper

ADD = (
    "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, float[3] b{}> {{ c = {} y = Add (x, c) }}"
)
TOO_LARGE = "it would take more than 512 MiB to compute"
GROWS = "the model would grow by more than 1 MiB"


def text_model() -> onnx.ModelProto:
    model = parse(
        "agraph (string[1] x) => (bool[10000] y) <int64[1] s = {10000}> { c = Expand (t, s) y = Equal (x, c) }",
        opset=19,
    )
    model.graph.initializer.append(helper.make_tensor("t", TensorProto.STRING, [], [b"x" * 2000]))
    return model


def sparse_model() -> onnx.ModelProto:
    model = parse("agraph (float[N,3] x) => (float[N,3] y) { c = Constant () y = Add (x, c) }")
    values = numpy_helper.from_array(np.array([1.5], np.float32), "values")
    indices = numpy_helper.from_array(np.array([1]), "indices")
    sparse = helper.make_sparse_tensor(values, indices, [3])
    model.graph.node[0].attribute.append(helper.make_attribute("sparse_value", sparse))
    return model


STAYS = [
    Stays("nothing is constant", "agraph (float[N,3] x) => (float[N,3] y) { y = Relu (x) }", None),
    Stays("a random operator", ADD.format("", "RandomNormal <shape = [3]> ()"), None),
    Stays("a random operator of a constant", ADD.format("", "Bernoulli (a)"), None),
    Stays("a custom operator", ADD.format("", "my.own.Thing (a)"), None),
    Stays(
        "quantization",
        ADD.format(", uint8[3] q = {1,2,3}, float s = {0.1}", "DequantizeLinear (q, s)"),
        None,
    ),
    *[
        Stays(
            f"weights of {kind}",
            f"agraph (float[N,16] x) => (float[N,12] y) <{kind}[16,12] w, float[12] s> "
            "{ c = Cast <to = 1> (w) d = Mul (c, s) y = MatMul (x, d) }",
            "onnxruntime unpacks these narrow numbers when it loads the model",
            opset=21,
        )
        for kind in ("int8", "uint8", "bfloat16")
    ],
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
    *[
        Stays(f"{op} of a constant", ADD.format(more, op), None)
        for op, more in (
            ("RandomUniformLike (a)", ""),
            ("RandomNormalLike (a)", ""),
            ("RandomUniform <shape = [3]> ()", ""),
            ("Dropout (a, , t)", ", bool t = {1}"),
        )
    ],
    Stays(
        "Multinomial of a constant",
        "agraph (int32[N,3] x) => (int32[N,3] y) <float[1,3] a> "
        "{ c = Multinomial <sample_size = 3> (a) y = Add (x, c) }",
        None,
    ),
    Stays(
        "Q and DQ around a weight",
        """agraph (float[N,3] x) => (float[N,3] y) <float[3,3] w, float s = {0.1}, int8 z = {0}> {
            q = QuantizeLinear (w, s, z)
            d = DequantizeLinear (q, s, z)
            y = MatMul (x, d)
        }""",
        None,
    ),
    Stays(
        "dynamic quantization of a constant",
        """agraph (uint8[N,3] x) => (int32[N,3] y) <float[3,3] w> {
            q, s, z = DynamicQuantizeLinear (w)
            y = MatMulInteger (x, q)
        }""",
        None,
    ),
    Stays(
        "a branch",
        """agraph (float[N,3] x) => (float[N,3] y) <bool c = {1}, float[3] a> {
            b = If (c) <then_branch = t () => (float[3] p) { p = RandomNormalLike (a) },
                        else_branch = e () => (float[3] q) { q = RandomUniformLike (a) }>
            y = Add (x, b)
        }""",
        None,
    ),
    Stays(
        "elements that numpy has not",
        """agraph (float[N,3] x) => (float[N,3] y) <float[3] a> {
            b = Cast <to = 16> (a)
            c = Cast <to = 1> (b)
            y = Add (x, c)
        }""",
        None,
    ),
    Stays(
        "a graph output before IR version 4",
        "agraph (float[N,3] x) => (float[N,3] y, float[3] z) <float[3] a> { z = Neg (a) y = Relu (x) }",
        "before IR version 4 a constant cannot be a graph output",
        opset=9,
        ir_version=3,
    ),
    Stays("20 MB of text out of 2 KB", text_model, GROWS),
    Stays(
        "terabytes out of 16 bytes",  # it is not even tried
        "agraph (float[N,1000000] x) => (float[N,1000000] y) <int64[2] s = {1000000, 1000000}> "
        "{ c = ConstantOfShape (s) y = MatMul (x, c) }",
        TOO_LARGE,
    ),
    Stays(
        "a Constant node in a function",  # where there are no initializers
        lambda: onnx.parser.parse_model("""
            <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
            agraph (float[N] x) => (float[N] y) { y = functions.own (x) }
            <domain: "functions", opset_import: ["" : 18]>
            own (a) => (b) { c = Constant <value = float {2}> () b = Mul (a, c) }
        """),
        None,
    ),
    Stays("a sparse Constant", sparse_model, None),
]

FIRES = [
    Fires(
        "few numbers of few bits",
        "agraph (float[N,3] x) => (float[N,3] y) <int8[3] q = {1,2,3}> { c = Cast <to = 1> (q) y = Add (x, c) }",
        ["Add"],
    ),
    Fires(
        "indices of few bits",
        """agraph (float[N,300] x) => (float[N,300] y) <int8[300] q>
        { c = Cast <to = 7> (q) y = Gather <axis = 1> (x, c) }""",
        ["Gather"],
    ),
    Fires("one node", ADD.format("", "Mul (a, b)"), ["Add"]),
    Fires(
        "a chain is one rewrite",
        ADD.format("", "Mul (a, b) d = Neg (c)").replace("(x, c)", "(x, d)"),
        ["Add"],
    ),
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
    Fires(
        "the shape of a constant",
        "agraph (int64[N] x) => (int64[N] y) <float[3] a> { c = Size (a) y = Add (x, c) }",
        ["Add"],
    ),
    *[
        Fires(name, ADD.format(more, op), ["Add"])
        for name, op, more in (
            ("Range", "Range (p, q, p)", ", float p = {1}, float q = {4}"),
            ("ConstantOfShape", "ConstantOfShape (k)", ", int64[1] k = {3}"),
            ("Where", "Where (k, a, b)", ", bool[3] k = {1,0,1}"),
            ("one value twice", "Mul (a, a)", ""),
            ("an optional input that is left out", "Clip (a, , k)", ", float k = {1}"),
            ("Dropout in inference", "Dropout (a)", ""),
        )
    ],
    Fires("float16", ADD.format("", "Mul (a, b)").replace("float[", "float16["), ["Add"]),
    Fires(
        "beside a random operator",
        """agraph (float[N,3] x) => (float[N,3] y) <float[3] a, float[3] b> {
            c = Neg (a)
            r = RandomNormalLike (c)
            d = Neg (b)
            e = Mul (r, d)
            f = Mul (e, d)
            g = Sub (f, f)
            y = Add (x, g)
        }""",
        ["RandomNormalLike", "Mul", "Mul", "Sub", "Add"],
        2,
    ),
    Fires(
        "what a branch hands out",
        """agraph (float[N,3] x, bool k) => (float[3] y) <float[3] a> {
            y = If (k) <then_branch = t () => (float[3] p) { p = Neg (a) },
                        else_branch = e () => (float[3] q) { q = Constant <value = float[3] {1, 2, 3}> () }>
        }""",
        ["If"],
        2,
        inside_if=False,
    ),  # it is inside an If
    Fires(
        "what a subgraph uses",
        seen_by_subgraph(ADD.format("", "Mul (a, b)"), "c", "float[3]"),
        ["Add", "If"],
        3,  # the Identity in each branch, too
        inside_if=False,
    ),  # it has an If of its own
    Fires(
        "in the body of a loop",
        """agraph (float[3] x, int64 n, bool c) => (float[3] y) <float[3] a> {
            y = Loop (n, c, x) <body = b (int64 i, bool go, float[3] s) => (bool on, float[3] t)
                                { on = Constant <value = bool {1}> () d = Neg (a) t = Add (s, d) }>
        }""",
        ["Loop"],
        2,
    ),
    Fires(
        "a Constant node that is a graph output",
        "agraph (float[N] x) => (float[N] y, float[2] c) { c = Constant <value = float[2] {1, 2}> () y = Relu (x) }",
        ["Relu"],
    ),
    Fires(
        "no elements",
        "agraph (float[N,3] x) => (float[N,3] y) <float[0,3] a, int64[1] k = {0}> "
        "{ b = ReduceSum <keepdims = 0> (a, k) y = Add (x, b) }",
        ["Add"],
    ),
    Fires(
        "a result of which the size is not known before",
        "agraph (float[N,2] x) => (float[N,2] y) <float[3] a, bool[3] k = {1, 0, 1}> "
        "{ c = Compress (a, k) y = Add (x, c) }",
        ["Add"],
    ),
    Fires(
        "a result of which the rank is not known before",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, float[2] s = {1, 3}, bool[2] k = {1, 1}> "
        "{ p = Cast <to = 7> (s) q = Compress (p, k) c = Reshape (a, q) y = Add (x, c) }",
        ["Add"],
    ),
    Fires(
        "an output that is left out",
        ADD.format("", "Neg (d)").replace("{ c", "{ d, = Dropout (a) c"),
        ["Add"],
    ),
]

test_stays, test_fires = tables("ConstantFoldingPass", STAYS, FIRES, in_functions="never")


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
        [
            helper.make_node("Transpose", ["W"], ["t"]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ],
        W=WEIGHT,
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
    nodes = []
    total = "x"
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
    assert [node.output[0] for node in result.graph.node if node.op_type == "ConstantOfShape"] == [
        "large"
    ]


@pytest.mark.parametrize("attribute", [{"value_string": "b"}, {"value_strings": ["b", "c"]}])
def test_strings(attribute: dict[str, object]) -> None:
    model = parse(
        """agraph (string[N] x) => (bool[N] y) { c = Constant () d = Identity (c) y = Equal (x, d) }""",
        opset=19,
    )
    model.graph.node[0].attribute.append(helper.make_attribute(*next(iter(attribute.items()))))
    result, count, _ = fold(model)
    assert count > 0 and operators(result)["Equal"] == 1
    (tensor,) = result.graph.initializer
    assert list(tensor.string_data) == [b"b", b"c"][: len(tensor.string_data)]


def test_weights_in_constant_nodes_count_as_freed() -> None:
    """Before IR version 4, Constant nodes stay, and are weights."""
    nodes = [
        helper.make_node("Constant", [], ["W"], value=numpy_helper.from_array(WEIGHT)),
        helper.make_node("Transpose", ["W"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    model = weights_model(nodes)
    model.ir_version = 3
    model.opset_import[0].version = 9
    result, count, _ = fold(model)
    assert count == 1 and operators(result) == {"MatMul": 1}


def test_the_budget_holds_over_rounds() -> None:
    """Two times 0.75 MiB: what the first one cost is not there for the second, which is constant a round later."""
    rows = 384  # of 512 columns
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["first"]),
        helper.make_node("Gemm", ["x", "first"], ["y"], transB=1),
        helper.make_node("Constant", [], ["k"], value_ints=[rows, 512]),
        helper.make_node(
            "If", ["which"], ["z"], then_branch=branch("then"), else_branch=branch("else")
        ),
    ]
    model = weights_model(nodes, s=np.array([rows, 512]))
    model.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    result, count, reasons = fold(model)
    assert (count, reasons) == (2, [GROWS, GROWS])
    assert operators(result) == {"Gemm": 1, "If": 1, "MatMul": 2, "ConstantOfShape": 2}
    assert_same_numbers(model, result, "bitwise", {})


def branch(name: str) -> onnx.GraphProto:
    nodes = [
        helper.make_node("ConstantOfShape", ["k"], [f"large_{name}"]),
        helper.make_node("MatMul", ["y", f"large_{name}"], [name]),
    ]
    return helper.make_graph(
        nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
    )


def test_a_node_that_fails_keeps_no_other_one() -> None:
    nodes = " ".join(f"c{i} = Neg (a) d{i} = Add (x, c{i})" for i in range(9))
    outputs = ", ".join(f"float[N,3] d{i}" for i in range(9))
    model = parse(
        f"agraph (float[N,3] x) => ({outputs}, float[N,b] z) <float[3] a, int64[1] s = {{4}}>"
        f"{{ {nodes} r = Reshape (a, s) z = Concat <axis = 1> (x, r) }}"
    )
    _, count, reasons = fold(model)
    assert (count, reasons) == (9, ["onnxruntime cannot compute it"])


def test_a_weight_that_is_a_graph_output_is_not_freed() -> None:
    nodes = [
        helper.make_node("Transpose", ["W"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    model = weights_model(nodes, W=WEIGHT)
    model.graph.output.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, WEIGHT.shape))
    _, count, reasons = fold(model)
    assert (count, reasons) == (0, [GROWS])


def test_integer_division_that_would_end_the_process_is_not_tried() -> None:
    text = """agraph (bool c, int32[1] x) => (int32[1] y) <int32[1] low = {-2147483648}, int32[1] minus = {-1}, int32[1] zero = {0}> {
        y = If (c) <then_branch = t () => (int32[1] p) { p = Div (low, minus) },
                    else_branch = e () => (int32[1] q) { r = Mod (low, zero) q = Add (r, x) }> }"""
    result, counts = optimize(parse(text), [pass_of("ConstantFoldingPass")])
    assert effected(counts) == 0 and operators(result)["Div"] == 1


def test_the_budget_is_one_for_all_runs() -> None:
    """What one run leaves because of the budget, the next one leaves as well."""
    body = " ".join(
        f"s{i} = ConstantOfShape <value = float[1] {{{i + 1}}}> (n) p{i} = Add (x, s{i})"
        for i in range(3)
    )
    text = f"agraph (float[150000] x) => (float[150000] p0, float[150000] p1, float[150000] p2) <int64[1] n = {{150000}}> {{ {body} }}"
    once, counts = optimize(parse(text), [pass_of("ConstantFoldingPass")])
    assert effected(counts) == 1
    again, counts = optimize(once, [pass_of("ConstantFoldingPass")])
    assert effected(counts) == 0 and again == once


def test_what_is_known_to_be_too_large_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(
        "fusionc.passes.cleanup.constant_folding.evaluate",
        lambda wanted, _: unexpected() if wanted else {},
    )
    text = "agraph (float[2000,1000] x) => (float[2000,1000] y) <float16[2000,1000] W> { V = Cast <to = 1> (W) y = Add (x, V) }"
    _, counts = optimize(parse(text), [pass_of("ConstantFoldingPass")])
    assert [count.refused for count in counts if count.refused] == [{GROWS: 1}]
