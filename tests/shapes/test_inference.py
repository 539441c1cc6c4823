"""What is known about types and shapes: what onnx infers, and what the model says of operators that
onnx has not.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import operators, optimize, parse, pass_of

from fusionc.model.graph import Edge, Graph, Shape
from fusionc.rewrite import Tape
from fusionc.shapes.equality import broadcasts_into, same_after_reshape, same_shape
from fusionc.shapes.expressions import is_invented, multiplied
from fusionc.shapes.inference import typed_model


def graph_of(text: str, opset: int = 18) -> Graph:
    return typed_model(parse(text, opset), "").main


def value(graph: Graph, name: str) -> Edge:
    return graph.values[name]


def test_symbols_go_through_operators() -> None:
    graph = graph_of(
        "agraph (float[batch,3] x) => (float[a,b] y) <float[3,5] W> { h = MatMul (x, W) y = "
        "Relu "
        "(h) }"
    )
    assert value(graph, "h").shape == value(graph, "y").shape == ("batch", 5)
    assert same_shape(value(graph, "h").shape, value(graph, "y").shape)


def test_a_scan_of_old_models_has_an_input_more_than_its_subgraph() -> None:
    graph = graph_of(
        """agraph (float[batch,2] start, float[batch,len,2] rows) => (float[batch,2] last) {
        last = Scan <num_scan_inputs = 1, body = body (float[2] state, float[2] row) => (float[2]
        next) {
            next = Add (state, row)
        }> (, start, rows)
    }""",
        opset=8,
    )
    assert value(graph, "last").shape == ("batch", 2)


def test_what_data_propagation_knows() -> None:
    graph = graph_of("""agraph (float[batch,4,6] x) => (float[a,b] y) <int64[1] zero = {0},
        int64[1] rest = {-1}> {
        s = Shape (x)
        first = Gather (s, zero)
        target = Concat <axis = 0> (first, rest)
        y = Reshape (x, target)
    }""")
    shape = value(graph, "y").shape
    assert shape == ("batch", 24)  # onnx leaves the second open


def test_a_declaration_that_contradicts_inference_loses() -> None:
    model = parse("agraph (float[2,3] x) => (float[2,3] y) { h = Relu (x) y = Neg (h) }")
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [7, 7])
    )
    assert value(typed_model(model, "").main, "h").shape == (2, 3)


def test_a_declaration_counts_for_operators_that_onnx_does_not_know() -> None:
    model = parse("agraph (float[2,3] x) => (float[a,b] y) { g = my.own.F (x) y = Neg (g) }")
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("g", onnx.TensorProto.FLOAT, [6, 1])
    )
    graph = typed_model(model, "").main
    assert value(graph, "g").shape == value(graph, "y").shape == (6, 1)


def test_what_a_declaration_leaves_open_has_a_name() -> None:
    model = parse("agraph (float[2,3] x) => (float[a,b] y) { g = my.own.F (x) y = Neg (g) }")
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("g", onnx.TensorProto.FLOAT, [None, 4])
    )
    graph = typed_model(model, "").main
    shape = value(graph, "y").shape
    assert shape is not None and shape[0] is not None and shape == value(graph, "g").shape


def test_a_declaration_of_what_the_caller_decides_counts_for_nothing() -> None:
    """Whatever the model says of y, the caller may ask for another shape."""
    model = parse(
        "agraph (float[2,3] x, int64[2] s) => (float[2,3] y) { h = Reshape (x, s) y = Neg (h) }"
    )
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [2, 3])
    )
    graph = typed_model(model, "").main
    for name in ("h", "y"):
        shape = value(graph, name).shape
        assert shape is None or not any(isinstance(d, int) for d in shape)


def test_values_in_a_branch_with_a_constant_from_outside() -> None:
    graph = graph_of("""agraph (float[2,6] x, bool c) => (float[a,b] y) <int64[2] s = {3,4}> {
        y = If (c) <then_branch = t () => (float[a,b] p) { h = Reshape (x, s) p = Relu (h) },
                    else_branch = e () => (float[a,b] q) { q = Reshape (x, s) }>
    }""")
    (chooser,) = graph.nodes
    assert [body.outputs[0].shape for body in chooser.bodies] == [(3, 4), (3, 4)]


def test_invented_symbols_stay_with_what_they_were_invented_for() -> None:
    graph = graph_of(
        "agraph (float[N,3] x) => (float[a,b] y) { n = NonZero (x) m = Transpose (n) k = "
        "NonZero (m) y = Add (m, k) }"
    )
    first, turned, second = (value(graph, name) for name in "nmk")
    before = first.shape
    assert (
        before is not None
        and before[0] == 2
        and turned.shape == before[::-1]
        and second.shape != before
    )
    graph.model.types.note_commit([(first, first)], [])
    graph.model.types.begin_pass()
    assert first.shape == before and turned.shape == before[::-1]


def test_a_symbol_of_the_models_own_is_not_invented_again() -> None:
    graph = graph_of("agraph (float[unk__0] x) => (int64[a,b] y) { n = NonZero (x) y = Neg (n) }")
    assert value(graph, "n").shape == (1, "unk__1")


def test_a_commit_that_teaches_nothing_asks_for_no_new_inference() -> None:
    graph = graph_of(
        """agraph (float[N,3] x) => (float[a,b] y) {
            n = NonZero (x) m = Transpose (n) y = Cast <to = 1> (m) r = Relu (x) }"""
    )
    before = value(graph, "n").shape
    known = value(graph, "r")
    graph.model.types.note_commit([(known, known)], [known.inputs[0]])
    graph.model.types.begin_pass()
    assert value(graph, "n").shape == before


def test_what_stands_for_a_value_inherits_only_what_onnx_does_not_know() -> None:
    graph = graph_of(
        "agraph (float[2,3] x, int64[2] s) => (float[a,b] y) { h = Reshape (x, s) k = Relu "
        "(x) y = Neg (h) }"
    )
    tape = Tape(graph)
    relu = tape.Relu(value(graph, "x"))
    neg = tape.Neg(value(graph, "h"))
    graph.model.types.note_commit([(value(graph, "h"), relu)], [relu.producer])
    assert relu.shape == (2, 3)  # and not that of h, of which nothing is known
    foreign = tape.node("F", [value(graph, "x")], domain="own")
    assert foreign.shape is None
    graph.model.types.note_commit([(value(graph, "k"), foreign)], [foreign.producer])
    assert foreign.shape == (2, 3) and neg.shape != (2, 3)


def test_unknown_is_none_and_not_a_guess() -> None:
    graph = graph_of(
        "agraph (float[2,3] x, int64[K] s) => (float[a] y) { h = Reshape (x, s) g = own.F "
        "(h) y = Neg (h) }"
    )
    assert (
        value(graph, "h").rank is None
        and value(graph, "g").shape is None
        and value(graph, "g").elem_type == 0
    )
    assert not same_shape(None, None) and not same_shape((None,), (None,))


def test_before_ir_version_3_there_is_one_opset() -> None:
    model = onnx.ModelProto(ir_version=2)
    model.graph.name = "g"
    assert typed_model(model, "").main.opset == 1


MADE = {
    "Range": ("n = Gather (s, zero) r = Range (zero, n, one)", ("batch",)),
    "Expand": ("c = Concat <axis = 0> (n1, two, m1) r = Expand (k, c)", ("batch", 2, "seq")),
    "Expand with a −1 that Where makes 1": (
        (
            "c = Concat <axis = 0> (n1, minus, m1) e = Equal (c, minus) w = Where (e, ones, c) r "
            "= Expand (k, w)"
        ),
        ("batch", 2, "seq"),
    ),
    "Reshape": ("c = Concat <axis = 0> (m1, one1, n1) r = Reshape (x, c)", ("seq", 1, "batch")),
    "ConstantOfShape": ("c = Concat <axis = 0> (m1, two) r = ConstantOfShape (c)", ("seq", 2)),
    "Reshape with −1": ("c = Concat <axis = 0> (n1, minus) r = Reshape (x, c)", ("batch", "seq")),
    "Reshape with 0 and −1": ("r = Reshape (x, keeps)", ("batch", "seq")),
    "there and back": (
        "f = Reshape (x, minus) c = Concat <axis = 0> (minus, m1) r = Reshape (f, c)",
        ("batch", "seq"),
    ),
    "a product and a quotient": (
        (
            "n = Gather (s, zero) l = Gather (s, one) p = Mul (n, l) d = Div (p, n) r = Range "
            "(zero, d, one)"
        ),
        ("seq",),
    ),
    "a sum, less one": (
        "n = Gather (s, zero) p = Add (n, one) d = Sub (p, one) r = Range (zero, d, one)",
        ("batch",),
    ),
    "a number beside a symbol": ("e = Unsqueeze (x, minus) r = Add (e, k)", ("batch", 2, 1)),
    "Slice of all": ("r = Slice (x, zero1, far, one1)", ("batch", "seq")),
    "Slice to beyond everything": (
        "beyond = Constant <value = int64[1] {1073741825}> () r = Slice (x, zero1, beyond, one1)",
        ("batch", "seq"),
    ),
    "a limit beside what it limits": (
        "t = Slice (table, zero1, m1, one1) r = Add (x, t)",
        ("batch", "seq"),
    ),
    "Expand beyond a limit": (
        "t = Slice (table, zero1, m1, one1) c = Concat <axis = 0> (n1, m1) r = Expand (t, c)",
        ("batch", "seq"),
    ),
    "Concat of two lengths": (
        "c = Concat <axis = 1> (x, x) h = Shape <start = 1> (c) d = Sub (h, m1) z = Concat <axis "
        "= 0> (n1, d) "
        "r = ConstantOfShape (z)",
        ("batch", "seq"),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_shapes_that_are_computed_from_dimensions(name: str) -> None:
    """onnx's inference loses the symbols there; what follows from them is inferred, too."""
    body, shape = MADE[name]
    graph = graph_of(f"""agraph (float[batch,seq] x, float[2,1] k) => (float y) <int64 zero =
        {{0}}, int64 one = {{1}},
        int64[1] one1 = {{1}}, int64[1] zero1 = {{0}}, int64[1] two = {{2}}, int64[1] minus =
        {{-1}},
        int64[3] ones = {{1,1,1}}, int64[2] keeps = {{0,-1}}, int64[1] far =
        {{9223372036854775807}},
        float[1,512] table> {{ s = Shape (x) n1 = Shape <start = 0, end = 1> (x) m1 = Shape <start
        = 1> (x) {body}
        q = Neg (r) y = ReduceSum <keepdims = 0> (q) }}""")
    assert value(graph, "r").shape == value(graph, "q").shape == shape


@pytest.mark.parametrize(
    ("name", "body"),
    {
        "Range from one": "n = Gather (s, zero) r = Range (one, n, one)",
        "Range in steps": "n = Gather (s, zero) r = Range (zero, n, two)",
        "Reshape with −1 of another symbol": "c = Concat <axis = 0> (b1, minus) r = Reshape (x, c)",
        "a sum that may be negative": (
            "n = Gather (s, zero) d = Sub (n, one) r = Range (zero, d, one)"
        ),
        "a quotient that leaves something over": (
            "n = Gather (s, one) d = Div (n, two) r = Range (zero, d, one)"
        ),
        "two symbols that are added": "r = Add (x, z)",
        "Slice from one": "r = Slice (x, one1, far, one1)",
        "Slice to a number": "r = Slice (x, zero1, five1, one1)",
        "Slice to just not beyond everything": "r = Slice (x, zero1, edge1, one1)",
        "Slice in steps": "r = Slice (x, zero1, far, one1, two1)",
        "Slice to another symbol": "r = Slice (x, zero1, n1, one1)",
        "a −1 that Where replaces, or a difference": (
            "n = Gather (s, one) d = Sub (n, two) e = Equal (d, less) w = Where (e, five, d) a = "
            "Add (w, two) "
            "u = Unsqueeze (a, zero1) r = ConstantOfShape (u)"
        ),
        "Expand to another symbol": "c = Concat <axis = 0> (m1, n1) r = Expand (x, c)",
    }.items(),
)
def test_shapes_that_do_not_follow(name: str, body: str) -> None:
    graph = graph_of(f"""agraph (float[batch,seq] x, float[other] z) => (float y) <
        int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 less = {{-1}}, int64 five =
        {{5}},
        int64[1] zero1 = {{0}}, int64[1] one1 = {{1}},
        int64[1] two1 = {{2}}, int64[1] five1 = {{5}}, int64[1] edge1 = {{1073741824}},
        int64[1] far = {{9223372036854775807}}, int64[1] minus = {{-1}}> {{
        b1 = Shape (z) s = Shape (x) n1 = Shape <start = 0, end = 1> (x) m1 = Shape <start = 1> (x)
        {body}
        y = ReduceSum <keepdims = 0> (r) }}""")
    shape = value(graph, "r").shape
    assert shape is None or not {"batch", "seq"} & set(shape[-1:])


@pytest.mark.parametrize(
    ("target", "known"),
    [
        ("Concat <axis = 0> (n, k, five)", ("batch", None, 5)),
        ("Concat <axis = 0> (n, tail)", ("batch", None, 5)),
        ("Concat <axis = 0> (zero, k, five)", ("batch", None, 5)),
        ("Concat <axis = 0> (n, k, minus)", ("batch", None, None)),
        ("Concat <axis = 0> (n, less)", ("batch", None)),
        ("Concat <axis = 0> (n, some, five)", None),
    ],
)
def test_what_is_known_of_the_parts_of_a_target(target: str, known: Shape | None) -> None:
    graph = graph_of(f"""agraph (float[batch,4,seq] x, int64[1] k, int64[K] some) => (float y)
        <int64[1] five = {{5}},
        int64[1] minus = {{-1}}, int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
        n = Shape <start = 0, end = 1> (x) tail = Concat <axis = 0> (k, five) less = Sub (n, one) t
        = {target}
        r = Reshape (x, t) y = ReduceSum <keepdims = 0> (r) }}""")
    shape = value(graph, "r").shape
    assert known == (
        None if shape is None else tuple(None if is_invented(dim) else dim for dim in shape)
    )


def test_long_chains_of_shape_arithmetic() -> None:
    """Each element is worked out once, however often it is used."""
    steps = "\n".join(f"n{i + 1} = Add (n{i}, n{i})" for i in range(60))
    graph = graph_of(
        f"agraph (float[batch] x) => (float[a] y) {{ n0 = Shape (x) {steps} y = "
        "ConstantOfShape "
        f"(n60) }}"
    )
    (size,) = value(graph, "y").shape or ()
    assert size == multiplied(2**60, "batch")


def test_what_a_subgraph_is_given_and_what_comes_out_of_it() -> None:
    graph = graph_of("""agraph (float[2,3] x, int64 n, float[T,B,4] s, bool c) => (float y) <bool
        yes = {1}> {
        g, z = Loop (n, yes, x) <body = b (int64 i, bool k, float[2,3] carried)
            => (bool k2, float[m,o] next, float[m,o] each)
            { k2 = Identity (k) next = Concat <axis = 0> (carried, carried) each = Sigmoid (x) }>
        a, b = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b2 (float[p,q] state,
        float[p,q] row)
            => (float[p,q] state2, float[p,q] row2) { state2 = Relu (state) row2 = Neg (row) }> (x,
            s)
        d = If (c) <then_branch = t () => (float[p,q] t2) { t2 = Relu (x) },
                    else_branch = e () => (float[p,q] e2) { e2 = Transpose (x) }>
        y = ReduceSum <keepdims = 0> (d) }""")
    loop, scan, _ = (node for node in graph.ordered() if node.bodies)
    assert value(graph, "g").rank is None and value(graph, "z").shape is not None
    assert (value(graph, "z").shape or ())[1:] == (2, 3)
    assert [v.shape for v in scan.bodies[0].inputs] == [(2, 3), ("T", 4)] and loop.bodies[0].inputs[
        2
    ].shape is None
    assert value(graph, "a").shape == (2, 3) and value(graph, "b").shape == ("B", "T", 4)
    assert value(graph, "d").rank == 2 and value(graph, "d").elem_type == 1


def test_what_a_function_makes() -> None:
    """Its own calls of functions included; only those that are called are looked at."""
    model = parse(
        "agraph (float[N,3] x) => (float[a,b] y) <int64[2] target = {3,-1}> { y = own.F (x, "
        "target) }"
    )
    for text in (
        '<opset_import: ["" : 18, "own" : 1], domain: "own"> F (x, s) => (y) { h = own.G '
        "(x) y = Reshape (h, s) }",
        '<opset_import: ["" : 18], domain: "own"> G (x) => (y) { y = Relu (x) }',
        '<opset_import: ["" : 18], domain: "own"> Unused (x) => (y) { y = Broken (x) }',
    ):
        model.functions.append(onnx.parser.parse_function(text))
    shape = value(typed_model(model, "").main, "y").shape
    assert shape is not None and len(shape) == 2 and shape[0] == 3


@pytest.mark.parametrize(("operator", "counts"), [("Add", False), ("other.J", True)])
def test_a_declared_size_counts_if_a_function_calls_an_unknown_operator(
    operator: str, counts: bool
) -> None:
    model = parse("agraph (float[2,k] x) => (float[2,6] y) { y = own.F (x) }")
    model.functions.append(
        onnx.parser.parse_function(
            f"""<opset_import: ["" : 18, "other" : 1], domain: "own"> F (x) => (y) {{
            y = {operator} (x, x) }}"""
        )
    )
    known = value(typed_model(model, "").main, "y").shape
    assert known is not None and known[0] == 2 and (known[1] == 6) == counts


def test_what_onnx_does_not_know_of_a_call_is_not_what_it_does_not_know_of_another() -> None:
    """onnx calls the first dimension that it invents unk__0 in each of them."""
    model = parse("""agraph (float[N,4] x, float[M,3] w) => (float[a] y, float[b] z) {
        p = own.F (x) q = own.F (w) y = Neg (p) z = Neg (q) }""")
    model.functions.append(
        onnx.parser.parse_function("""<opset_import: ["" : 18], domain: "own"> F (x) => (y) {
        n = Constant <value_ints = [-1]> () y = Reshape (x, n) }""")
    )
    graph = typed_model(model, "").main
    (one,) = value(graph, "p").shape or ()
    (other,) = value(graph, "q").shape or ()
    assert is_invented(one) and is_invented(other) and one != other


@pytest.mark.parametrize(
    ("opset", "call"),
    [
        (21, "GroupNormalization <num_groups = 3> (x, k, k)"),
        (18, "MeanVarianceNormalization (x)"),
        (12, "LayerNormalization <axis = 1> (x, k, k)"),  # onnxruntime runs it below opset 17, too
    ],
)
def test_operators_without_a_rule_of_onnx(opset: int, call: str) -> None:
    graph = graph_of(
        f"agraph (float[N,3,S,T] x) => (float[a,b,c,d] y) <float[3] k> {{ y = {call} }}", opset
    )
    assert value(graph, "y").shape == ("N", 3, "S", "T") and value(graph, "y").elem_type == 1


def test_a_convolution_with_its_activation_makes_the_shapes_of_a_convolution() -> None:
    graph = graph_of(
        """agraph (float[N,3,9,T] x, float[N,5,4,7] z) => (float[a,b,c,d] y) <float[5,3,3,3] W,
            float[5] B> {
            h = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.5],
            strides = [2, 1]>
                (x, W, B)
            g = com.microsoft.FusedConv <activation = "Relu", strides = [2, 1]> (x, W, , z)
            y = Add (g, h) }"""
    )
    for name in ("h", "g"):
        batch, channels, height, width = value(graph, name).shape or ()
        assert (
            (batch, channels, height) == ("N", 5, 4)
            and is_invented(width)
            and value(graph, name).elem_type == 1
        )


def test_what_folding_makes_known_is_asked_again() -> None:
    """The scales of a Resize are no integers, and decide its shape all the same."""
    model = parse("""agraph (float[1,1,10] x) => (int64[3] y) <float[3] half = {0.5,0.5,1},
        float[3] twice = {2,2,2}> {
        scales = Mul (half, twice) h = Resize (x, , scales) y = Shape (h) }""")
    result, _ = optimize(model, [pass_of("ConstantFoldingPass"), pass_of("DimensionComputePass")])
    assert not operators(result)


def test_what_lies_behind_a_decided_if_is_asked_again() -> None:
    """Also where the value that its branch gives is replaced before anybody asks."""
    model = parse("""agraph (float[N,4] x) => (float[A,B] y)
        <bool c = {1}, int64[3] three = {1,-1,4}, int64[2] two = {-1,4}> {
        d = If (c) <then_branch = f () => (a) { a = Identity (x) }, else_branch = g () => (b) {b =
        Reshape (x, three)}>
        h = Relu (d) r = Reshape (h, two) y = Neg (r) }""")
    names = ("SwitchDeadBranchElimination", "IdentityPass", "NoUseReshapeRemovePass")
    assert set(operators(optimize(model, [pass_of(name) for name in names])[0])) == {"Relu", "Neg"}


def test_numbers_that_no_integer_holds_are_not_told_onnx() -> None:
    steps = "\n".join(f"n{i + 1} = Add (n{i}, n{i})" for i in range(64))
    graph = graph_of(
        f"agraph (float[3] x) => (float[a] y) {{ n0 = Shape (x) {steps} y = Neg (x) z = Neg "
        f"(n64) }}"
    )
    assert value(graph, "z").shape == (1,)


def test_a_negative_size_is_an_unknown_one() -> None:
    """onnx's inference of a Slice of such an input would end the process."""
    model = parse(
        "agraph (float[2,3] x) => (float[a,b] y) <int64[1] one = {1}> { y = Slice (x, one, "
        "one, "
        "one, one) }"
    )
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -5
    assert (value(typed_model(model, "").main, "y").shape or ())[0] == 2


def test_large_constant_nodes_have_types() -> None:
    """Inference goes without their elements."""
    model = parse("agraph (float[N,64] x) => (float[a,b] y) { y = MatMul (x, W) }")
    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32))
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["W"], value=weights))
    graph = typed_model(model, "").main
    assert value(graph, "W").shape == (64, 64) and value(graph, "y").shape == ("N", 64)


def test_one_dimension_follows_from_the_others_where_nothing_else_is_known_of_it() -> None:
    assert same_after_reshape(("B", 8, "T", 5), ("B", 8, None, 5)) and same_after_reshape(
        ("B", 8), ("B", "unk__3")
    )
    assert not same_after_reshape(("B", 8, "T", 5), ("B", 8, 7, 5))  # B may be 0
    assert not same_after_reshape(("B", "T"), ("B", "S"))
    assert not same_after_reshape(("B", None), (None, "T"))
    assert not same_after_reshape((0, 8), (0, None))


@pytest.mark.parametrize(
    ("small", "large", "fits"),
    [
        (None, None, False),
        (None, (2, 3), False),
        (None, (), False),
        ((), None, True),
        ((), (), True),
        ((), (2, "N", None), True),
        ((1,), None, False),
        ((1,), (), False),
        ((1,), (None,), True),
        ((1, 1), (3,), False),
        ((3,), (2, 3), True),
        ((2,), (2, 3), False),
        ((1, 3), (2, 3), True),
        ((2, 1), (2, 3), True),
        ((3, 1), (2, 3), False),
        ((3,), (2, 1), False),
        (("N",), ("M", "N"), True),
        (("N",), ("N", "M"), False),
        (("N",), (2,), False),
        ((2,), ("N",), False),
        ((None,), (None,), False),
        ((None, 3), (None, 3), False),
    ],
)
def test_what_broadcasts_into_a_shape(small: Shape | None, large: Shape | None, fits: bool) -> None:
    """Nothing is known of a shape that is not known; a number without axes changes no shape at
    all.
    """
    assert broadcasts_into(small, large) is fits
