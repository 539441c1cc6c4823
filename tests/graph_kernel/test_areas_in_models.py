"""Areas in models: what they may contain, how they are written, and that the answers stay."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import pytest
from fused import DEFAULT, fuse
from harness import assert_same_numbers, interface, parse, session
from variants import wrap_in_if

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.select.cluster_model import cluster_proto
from fusionc.graph_kernel.select.expand import Expander
from fusionc.protos.node_origin import FROM_KEY, PASS_KEY
from fusionc.shapes.inference import typed_model

CHAIN = "agraph (float[N,4] x) => (float[N,4] y) { a = Exp (x)  b = Tanh (a)  y = Neg (b) }"
CHAIN_OF_FIVE = """agraph (float[N,4] x) => (float[N,4] y) {
    a = Exp (x)  b = Neg (a)  c = Tanh (b)  d = Abs (c)  y = Neg (d) }"""
LAYERS = """agraph (float[N,4] x, float[4,4] w) => (float[N,4] y) <float[4] p, float[4] q, float half = {0.5}> {
    a = Add (x, p)  b = Mul (a, half)  c = MatMul (b, w)  d = Add (c, q)  e = Mul (d, half)  y = MatMul (e, w) }"""


def calls(model: onnx.ModelProto) -> list[str]:
    """The operators of the main graph, areas by what is in them."""
    inside = {
        f.name: "+".join(n.op_type for n in f.node if n.op_type != "Constant")
        for f in model.functions
    }
    return [inside.get(node.op_type, node.op_type) for node in model.graph.node]


def assert_sound(model: onnx.ModelProto, result: onnx.ModelProto, **sizes: int) -> None:
    onnx.checker.check_model(result, full_check=True)
    assert interface(result) == interface(model)
    assert_same_numbers(model, result, "rounding", sizes)
    again, fused = fuse(result)
    assert again == result and not sum(count.effected for count in fused.counts)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (CHAIN, ["Exp+Tanh+Neg"]),
        (("agraph (float[N,4] x) => (float[N,4] y, float[N,4] b) { a = Exp (x)  b = Tanh (a)  "
            "y = Neg (b) }"),
         ["Exp+Tanh+Neg"]),
        ("agraph (float[N,4] x) => (float[N,4] y) { y = Exp (x) }", ["Exp"]),
        (("agraph (float[N,4] x) => (float[M] y) <int64[1] s = {-1}> { a = Reshape (x, s)  y = "
            "Exp (a) }"),
         ["Reshape", "Exp"]),
        ("agraph (float[N,4] x) => (int64[2] y) { s = Shape (x)  t = Neg (s)  y = Abs (t) }",
         ["Shape+Neg+Abs"]),
        ("agraph (int64[N,4] x) => (int64[N,4] y) { a = Neg (x)  y = Abs (a) }", ["Neg+Abs"]),
        (("agraph (string[N] x, string[N] z) => (bool[N] y) { a = Equal (x, z)  b = Not (a)  y "
            "= Or (b, a) }"),
         ["Equal+Not+Or"]),
    ],
)  # fmt: skip
def test_what_becomes_an_area(graph: str, expected: list[str]) -> None:
    model = parse(graph)
    assert calls(fuse(model)[0]) == expected


def test_equal_areas_share_a_function() -> None:
    model = parse(LAYERS)
    result, fused = fuse(model)
    assert calls(result) == ["Add+Mul", "MatMul", "Add+Mul", "MatMul"]
    assert len(result.functions) == len(fused.areas) == 1
    assert_sound(model, result)


def test_areas_of_other_constants_or_shapes_are_others() -> None:
    other_number = LAYERS.replace("e = Mul (d, half)", "e = Mul (d, third)").replace(
        "half = {0.5}", "half = {0.5}, float third = {0.3}"
    )
    assert len(fuse(parse(other_number))[0].functions) == 2
    other_shape = parse(
        """agraph (float[N,4] x, float[4,6] w) => (float[N,6] y) <float[4] p, float[6] q, float half = {0.5}> {
        a = Add (x, p)  b = Mul (a, half)  c = MatMul (b, w)  d = Add (c, q)  y = Mul (d, half) }"""
    )
    assert len(fuse(other_shape)[0].functions) == 2


def test_where_an_area_comes_from() -> None:
    model = parse(CHAIN)
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    stamp = {p.key: p.value for p in fuse(model)[0].graph.node[0].metadata_props}
    assert stamp[PASS_KEY] == "TbeEltwiseFusionPass" and stamp[FROM_KEY] == "n0,n1,n2"


@pytest.mark.parametrize("graph", [CHAIN, LAYERS])
def test_inside_subgraphs(graph: str) -> None:
    model = wrap_in_if(parse(graph))
    result, fused = fuse(model)
    assert sum(count.effected for count in fused.counts) == (2 if graph is CHAIN else 4)
    assert_sound(model, result)


def test_a_branch_that_is_gone_is_left_alone() -> None:
    model = wrap_in_if(parse(CHAIN))
    model.graph.input.pop()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "branch"))
    result, fused = fuse(model, behind=["SwitchDeadBranchElimination"])
    assert calls(result) == ["Exp+Tanh+Neg"] and len(fused.plans) == 1


def test_what_a_subgraph_uses_is_not_inside() -> None:
    model = parse(
        "agraph (float[N,4] x, bool p) => (float[N,4] y, float[N,4] z) { a = Exp (x)  b = Tanh "
        "(a)  y = Neg (b)"
        "z = If (p) <then_branch = t () => (float[N,4] u) { u = Abs (b) },"
        "else_branch = e () => (float[N,4] v) { v = Abs (a) }> }"
    )
    result, fused = fuse(model)
    assert len(fused.areas[0].outputs) == 3
    assert_sound(model, result)


TWO_UNKNOWN = """agraph (float[K] p, float[L] q) => (float[?,?] y) {
    f = NonZero (p)  g = NonZero (q)  a = Cast <to = 1> (f)  b = Cast <to = 1> (g)
    c = Concat <axis = 1> (a, a)  d = MatMul (p, b)  e = Add (c, b)  y = Exp (e) }"""


def test_what_may_be_broadcast_has_a_size_of_its_own() -> None:
    model = parse(TWO_UNKNOWN.replace("(c, b)", "(a, b)"))
    (area,) = (area for area in fuse(model)[1].areas if area.nodes[-1].op_type == "Exp")
    assert area.values[area.outputs[0]].shape not in [
        area.values[name].shape for name in area.inputs
    ]


def test_a_cluster_declares_no_symbol_that_inference_invents() -> None:
    graph = typed_model(parse(TWO_UNKNOWN), "").main
    for node in graph.ordered():
        proto = cluster_proto(graph, [node])
        assert proto is not None and "unk__" not in str(proto)


def test_overridable_constants_stay_inputs() -> None:
    model = parse(
        "agraph (float[N,4] x) => (float[N,4] y) <float c = {2.0}> { a = Exp (x)  y = Mul (a, c) }"
    )
    model.graph.input.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, []))
    result, fused = fuse(model)
    assert len(fused.areas[0].inputs) == 2
    x = np.ones((2, 4), np.float32)
    outputs = [
        session(m).run(None, {"x": x, "c": np.array(3, np.float32)})[0] for m in (model, result)
    ]
    np.testing.assert_array_equal(*outputs)


def test_an_ir_version_without_constants_is_refused() -> None:
    _, fused = fuse(parse(CHAIN, opset=8, ir_version=3))
    assert fused.counts[0].refused == {"a model of IR version 3 lists its constants as inputs": 1}


def test_unknown_ranks_are_left_alone() -> None:
    model = parse(
        "agraph (float[N] x, int64[K] s) => (float y) { r = Reshape (x, s)  a = Exp (r)  y = "
        "Neg "
        "(a) }"
    )
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert calls(fuse(model)[0]) == ["Reshape", "Exp", "Neg"]


def test_what_onnxruntime_computes_when_it_loads_the_model_is_left_to_it() -> None:
    """It computes no kernel then, whose operators would be computed again in each run."""
    model = parse("""agraph (float[N,4] x) => (float[N,4] y) <float[4] c = {1, 2, 3, 4}> {
        d = Neg (c)  e = Exp (d)  f = Tanh (e)  a = Mul (x, f)  b = Exp (a)  y = Neg (b) }""")
    result, _ = fuse(model)
    assert calls(result) == ["Neg", "Exp", "Tanh", "Mul+Exp+Neg"]
    assert_sound(model, result, N=3)


_NORM = """agraph (float[N,4] x) => (float[N,4] y)
    <float[4] w = {{1, 2, 3, 4}}, float[4] b = {{4, 3, 2, 1}}, float two = {{2}}> {{
    m = ReduceMean <axes = [-1]> (x)  c = Sub (x, m)  s = Pow (c, two)  v = ReduceMean <axes = [-1]> (s)
    e = Add (v, two)  r = Sqrt (e)  n = {division}  t = Mul (n, w)  o = Add (t, b)  h = Tanh (o)  y = Neg (h) }}"""


def test_a_norm_of_which_onnxruntime_makes_one_operator_is_left_to_it() -> None:
    parts = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
    model = parse(_NORM.format(division="Div (c, r)"), opset=13)
    result, _ = fuse(model)
    assert calls(result) == [*parts, "Tanh+Neg"]
    assert_sound(model, result, N=3)
    assert len(calls(fuse(model, Flags(opt_level=3, enable_stitch_fusion=True))[0])) == 1
    other = parse(
        _NORM.format(division="Mul (c, i)").replace("n =", "i = Reciprocal (r)  n ="), opset=13
    )
    assert "Reciprocal" not in calls(fuse(other)[0])


def test_the_sizes_of_outputs_are_declared_as_far_as_they_are_numbers() -> None:
    """onnxruntime infers none through a kernel, and pools of unknown channels leave its blocked
    layout.
    """
    model = parse("""agraph (float[N,4] x) => (float[N,M] y, float[N,4] z) <float[4,4] w> {
        a = Exp (x)  z = Neg (a)  b = Tanh (a)  y = MatMul (b, w) }""")
    result, _ = fuse(model)
    (info,) = result.graph.value_info
    assert info.name == "b" and info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [0, 4]
    assert not info.type.tensor_type.shape.dim[0].HasField("dim_value")
    assert_sound(model, result, N=3)


def test_what_kernels_cannot_contain() -> None:
    def no_tanh(area: Area) -> str | None:
        return "no tanh" if any(node.op_type == "Tanh" for node in area.nodes) else None

    graph = (
        "agraph (float[N,4] x) => (float[N,4] y) { a = Exp (x)  b = Neg (a)  c = Tanh (b)  d "
        "= Abs (c)  y = Neg (d) }"
    )
    assert calls(fuse(parse(graph), reason_against=no_tanh)[0]) == ["Exp+Neg", "Tanh", "Abs+Neg"]


def test_an_area_that_no_kernel_can_be_made_of_is_tried_without_stitches() -> None:
    def no_rows(area: Area) -> str | None:
        names = [node.op_type for node in area.nodes]
        return "no rows" if "Softmax" in names and len(names) > 1 else None

    graph = CHAIN_OF_FIVE.replace("Tanh", "Softmax")
    assert calls(fuse(parse(graph), reason_against=no_rows)[0]) == ["Exp+Neg", "Softmax", "Abs+Neg"]


CONV = "<float[2,2,1,1] w> {"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (f"agraph (float[N,2,8,8] x) => (float[N,2,8,8] y) {CONV} a = Conv (x, w)  b = Sigmoid "
        "(a)  c = Mul (a, b)"
         "y = Conv (c, w) }", ["Conv", "Sigmoid", "Mul", "Conv"]),
        ((f"agraph (float[N,2,8,8] x) => (float[N,2,8,8] y) {CONV} a = Conv (x, w)  b = "
            f"Sigmoid (a)  y = Mul (a, b) }}"),
         ["Conv", "Sigmoid+Mul"]),
        (f"agraph (float[N,2,8,8] x) => (float[N,2,16,16] y) <float[4] s = {{1, 1, 2, 2}}, "
        f"{CONV[1:]} a = Conv (x, w)"
         "r = Resize (a, , s)  b = Sigmoid (r)  c = Mul (r, b)  y = Conv (c, w) }",
         ["Conv", "Resize", "Sigmoid", "Mul", "Conv"]),
        (f"agraph (double[N,2,8,8] x) => (double[N,2,8,8] y) {CONV.replace('float', 'double')} a "
        "= Conv (x, w)"
         "b = Sigmoid (a)  c = Mul (a, b)  y = Conv (c, w) }", ["Conv", "Sigmoid+Mul", "Conv"]),
    ],
)  # fmt: skip
def test_the_blocked_layout_is_not_broken(graph: str, expected: list[str]) -> None:
    assert calls(fuse(parse(graph))[0]) == expected


@pytest.mark.parametrize(
    ("before", "behind", "is_area"),
    [
        ("Transpose <perm = [0, 3, 1, 2]> (x)", "Transpose <perm = [0, 2, 3, 1]> (d)", False),
        ("Transpose <perm = [0, 3, 1, 2]> (x)", "Conv (d, w)", False),
        ("Conv (x, w)", "Transpose <perm = [0, 2, 3, 1]> (d)", False),
        ("Transpose (x)", "Transpose (d)", False),
        ("Transpose <perm = [0, 2, 1, 3]> (x)", "Transpose <perm = [0, 1, 3, 2]> (d)", True),
        ("Transpose <perm = [0, 2, 3, 1]> (x)", "Conv (d, w)", True),
        ("Transpose <perm = [0, 3, 1, 2]> (x)", "MatMul (d, k)", True),
    ],
)
def test_a_transpose_that_is_undone_behind_an_area_can_be_moved(
    before: str, behind: str, is_area: bool
) -> None:
    model = parse(f"""agraph (float[N,4,4,4] x) => (float[N,?,?,?] y) <float[4,4,1,1] w, float[4,4] k> {{
        t = {before} a = Exp (t)  b = Neg (a)  d = Abs (b)  y = {behind} }}""")
    result, fused = fuse(model, Flags(opt_level=2, disable_cluster_ops=("Transpose",)))
    assert ("Exp+Neg+Abs" in calls(result)) == is_area
    reasons = [reason for count in fused.counts for reason in count.refused]
    assert any("another layout" in reason for reason in reasons) != is_area


@pytest.mark.parametrize(
    ("flags", "graph", "expected"),
    [
        ({}, "a = Exp (x)  b = Gelu (a)  y = Neg (b)", ["Exp+Gelu+Neg"]),
        ({"enable_expand_ops": ("Gelu",)}, "a = Exp (x)  b = Gelu (a)  y = Neg (b)",
         ["Exp+Div+Erf+Sum+Mul+Mul+Neg"]),
        ({"enable_expand_ops": ("Gelu",), "disable_expand_ops": ("Gelu",)}, "a = Exp (x)  b = Gelu (a)  y = Neg (b)",
         ["Exp+Gelu+Neg"]),
        ({"disable_cluster_ops": ("Tanh",)}, "a = Exp (x)  b = Neg (a)  c = Tanh (b)  y = Abs (c)",
         ["Exp+Neg", "Tanh", "Abs"]),
        ({"enable_cluster_ops_only": ("Tanh", "Abs")}, "a = Exp (x)  b = Neg (a)  c = Tanh (b)  y = Abs (c)",
         ["Exp", "Neg", "Tanh+Abs"]),
        ({"enable_cluster_ops": ("Einsum",)}, 'a = Exp (x)  b = Einsum <equation = "ij->ij"> (a)  y = Abs (b)',
         ["Exp", "Einsum", "Abs"]),
        ({"composite_op_limit_size": 2}, "a = Exp (x)  b = Neg (a)  c = Tanh (b)  y = Abs (c)",
         ["Exp+Neg", "Tanh+Abs"]),
        ({"disable_fusion_pattern": ("elemwise", "stitch")}, "a = Exp (x)  y = Abs (a)", ["Exp", "Abs"]),
        ({"opt_level": 1}, "a = Neg (x)  b = Neg (a)  y = Abs (b)", ["Neg+Neg+Abs"]),
        ({}, "a = Neg (x)  b = Neg (a)  c = Exp (b)  y = Abs (c)", ["Exp+Abs"]),
        ({"disable_simplify_exprs": ("1.8",)}, "a = Neg (x)  b = Neg (a)  y = Abs (b)", ["Neg+Neg+Abs"]),
        ({"enable_simplify_exprs_only": ("1.9",)}, "a = Neg (x)  b = Neg (a)  y = Abs (b)", ["Neg+Neg+Abs"]),
        ({"opt_level": 3}, "a = Exp (x)  b = Log (a)  c = Sin (b)  y = Abs (c)", ["Exp+Log+Sin+Abs"]),
        ({"opt_level": 3, "exact_precision_mode": False}, "a = Exp (x)  b = Log (a)  c = Sin (b)  y = Abs (c)",
         ["Sin+Abs"]),
        ({}, "a = Exp (x)  b = Exp (x)  y = Add (a, b)", ["Exp+Add"]),
        ({"disable_pass": ("2.7",)}, "a = Exp (x)  b = Exp (x)  y = Add (a, b)", ["Exp+Exp+Add"]),
    ],
)  # fmt: skip
def test_flags(flags: Mapping[str, Any], graph: str, expected: list[str]) -> None:
    model = parse(f"agraph (float[N,4] x) => (float[N,4] y) {{ {graph} }}", opset=20)
    result, _ = fuse(model, Flags(**{"opt_level": 2, **flags}))
    assert calls(result) == expected
    if "exact_precision_mode" not in flags:
        assert_same_numbers(model, result, "rounding", {})


@pytest.mark.parametrize(
    "call",
    [
        "QuickGelu <alpha = 1.0> (a)",
        "QuickGelu (a)",
        "Gelu (a)",
        "BiasGelu (a, bias)",
        "FastGelu (a, bias)",
    ],
)
def test_operators_of_onnxruntime_are_expanded(call: str) -> None:
    text = f"""agraph (float[N,4] x) => (float[N,4] y) <float[4] bias, float[N,4] b> {{
        a = Tanh (x)  b = com.microsoft.{call}  y = Neg (b) }}"""
    model = parse(text)
    result, _ = fuse(model)
    (only,) = calls(result)
    assert only.startswith("Tanh+") and only.endswith("+Neg") and "Gelu" not in only
    assert_same_numbers(model, result, "rounding", {})


def test_one_of_two_operators_of_onnxruntime_is_expanded() -> None:
    text = """agraph (float[N,4] x) => (float[N,4] y) {
        a = com.microsoft.Gelu (x)  b = Tanh (a)  y = com.microsoft.QuickGelu (b) }"""
    graph = typed_model(parse(text), "").main
    proto = cluster_proto(graph, graph.ordered())
    assert proto is not None
    expander = Expander(Flags(), True, lambda node: "it is composite")
    operators = [
        node.op_type for node in expander.expand(proto, ["com.microsoft.QuickGelu"]).graph.node
    ]
    assert (
        operators[:2] == ["Gelu", "Tanh"]
        and operators[-1] == "Mul"
        and "QuickGelu" not in operators
    )


def test_an_expansion_that_ends_in_no_area_is_rolled_back() -> None:
    graph = (
        "agraph (float[4,N] x) => (float[4,N] y) { a = Exp (x)  b = Neg (a)  c = Softmax "
        "<axis = 0> (b)  y = Abs (c) }"
    )
    flags = Flags(opt_level=2, enable_expand_ops=("Softmax",), disable_cluster_ops=("ReduceMax",))
    assert calls(fuse(parse(graph), flags)[0]) == ["Exp+Neg", "Softmax", "Abs"]


def test_without_addressing() -> None:
    graph = """agraph (float[N,4] x) => (float[N,2,2] y) <int64[3] s = {0, 2, 2}> {
        a = Exp (x)  b = Reshape (a, s)  y = Neg (b) }"""
    assert calls(fuse(parse(graph))[0]) == ["Exp+Reshape+Neg"]
    without = fuse(parse(graph), enabled=DEFAULT - {"FusionVirtualOpSetSwitch"})[0]
    assert calls(without) == ["Exp", "Reshape", "Neg"]


def test_parallel_products_are_joined_at_level_3() -> None:
    model = parse(
        """agraph (float[N,4] x) => (float[N,4] p, float[N,4] q, float[N,4] r)
        <float[4,4] u, float[4,4] v, float[4,4] w> { p = MatMul (x, u)  q = MatMul (x, v)  r = MatMul (x, w) }"""
    )
    assert calls(fuse(model, Flags(opt_level=2))[0]) == ["MatMul"] * 3
    assert calls(fuse(model, Flags(opt_level=2, enable_parallel_op_combine=True))[0]) == [
        "MatMul",
        "Split",
    ]
    assert calls(fuse(model, Flags(opt_level=3))[0]) == ["MatMul", "Split"]


@pytest.mark.timing
def test_it_takes_linear_time() -> None:
    seconds = []
    for count in (300, 3_000):
        lines = [f"v{i + 1} = {('Exp', 'Tanh', 'Neg')[i % 3]} (v{i})" for i in range(count)]
        model = parse(f"agraph (float[N,4] v0) => (float[N,4] v{count}) {{ {' '.join(lines)} }}")
        start = perf_counter()
        fuse(model)
        seconds.append(perf_counter() - start)
    assert seconds[1] < 30 * seconds[0] + 0.5


HALF = {
    "behind a matrix product": "h = MatMul (x, w)  a = Exp (h)  b = Neg (a)  y = Abs (b)",
    "before a matrix product": "a = Exp (x)  b = Neg (a)  c = Abs (b)  y = MatMul (c, w)",
    "between two": "h = MatMul (x, w)  a = Exp (h)  b = Neg (a)  c = Abs (b)  y = MatMul (c, w)",
}


@pytest.mark.parametrize("body", HALF.values(), ids=HALF)
def test_a_chain_that_onnxruntime_computes_in_float32_is_not_broken(body: str) -> None:
    for kind, is_area in (("float16", False), ("float", True)):
        model = parse(f"agraph ({kind}[N,4] x) => ({kind}[N,4] y) <{kind}[4,4] w> {{ {body} }}")
        result, fused = fuse(model)
        assert ("Exp+Neg+Abs" in calls(result)) == is_area
        reasons = [reason for count in fused.counts for reason in count.refused]
        assert any("keeps in float32" in reason for reason in reasons) != is_area


def test_an_area_of_float16_with_no_such_neighbour_stays() -> None:
    model = parse(
        "agraph (float16[N,4] x) => (float16[N,4] y) { a = Exp (x)  b = Neg (a)  y = Abs (b) }"
    )
    assert calls(fuse(model)[0]) == ["Exp+Neg+Abs"]


def test_the_body_of_a_scan_without_shapes() -> None:
    """onnxruntime wants the shapes of what it hands out, and infers none through a kernel."""
    model = parse("""agraph (float[N,4] x, float[4] s) => (float[4] y, float[N,4] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[4] state, float[4] row) => (float[4] next, float[4] out) {
            a = Tanh (row) next = Add (state, a) out = Neg (a) }> (s, x) }""")
    assert fuse(model)[1].areas
    (body,) = (
        attribute.g for attribute in model.graph.node[0].attribute if attribute.name == "body"
    )
    for declared in (*body.input, *body.output):
        declared.type.tensor_type.ClearField("shape")
    result, fused = fuse(model)
    assert not fused.areas
    session(result)
