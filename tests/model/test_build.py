"""Models that are no valid ONNX: one clear error, or they survive as they are."""

from __future__ import annotations

import numpy as np
import pytest
from harness import effected, optimize, parse, pass_of
from onnx import helper, numpy_helper

from fusionc.errors import FusioncError
from fusionc.shapes.inference import typed_model


def test_a_cycle_is_an_error() -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { a = Add (x, b) b = Relu (a) y = Neg (b) }")
    with pytest.raises(FusioncError, match="form a cycle"):
        typed_model(model, "")


def test_a_name_given_twice_is_an_error() -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { a = Relu (x) a = Neg (x) y = Abs (a) }")
    with pytest.raises(FusioncError, match="given to two values"):
        typed_model(model, "")


def test_nodes_out_of_order_are_ordered_once_something_changes() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { y = Neg (c) b = Identity (a) c = Abs (b) a = "
        "Relu "
        "(x) }"
    )
    result, counts = optimize(model, [pass_of("IdentityPass")])
    assert effected(counts) == 1
    assert [node.op_type for node in result.graph.node] == ["Relu", "Abs", "Neg"]
    assert optimize(model, [pass_of("DropOutPass")])[0] == model


def test_a_value_that_nobody_makes_is_named_with_its_user() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { a = Add (x, ghost) b = Identity (a) y = Neg (b) }"
    )
    with pytest.raises(FusioncError, match="no node computes the value 'ghost'") as caught:
        optimize(model, [pass_of("IdentityPass")])
    assert caught.value.code == "E13005" and "Add:a" in caught.value.where


def test_of_two_initializers_of_one_name_the_last_counts() -> None:
    """As in onnxruntime, which runs such a model."""
    model = parse(
        "agraph (float[N] x) => (float[N] y) <float[1] w = {2.0}, float[1] v = {1.0}> { y = "
        "Mul "
        "(x, w) }"
    )
    model.graph.initializer[1].name = "w"
    assert typed_model(model, "").main.values["w"].constant().tolist() == [1.0]


def test_a_subgraph_may_shadow_a_name_and_goes_on_meaning_its_own() -> None:
    """b becomes a outside, but inside the branch a is another value: the rewrite is refused."""
    model = parse("""agraph (float[N] x, bool c) => (float[N] y) {
        a = Relu (x)
        b = Identity (a)
        y = If (c) <then_branch = t () => (float[N] p) { a = Neg (x) p = Add (a, b) },
                    else_branch = e () => (float[N] q) { q = Abs (b) }>
    }""")
    result, counts = optimize(model, [pass_of("IdentityPass")])
    assert [reason for count in counts for reason in count.refused] == [
        "a subgraph gives another value the same name"
    ]
    assert result == model


def test_a_model_local_function_is_optimized_as_well() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        agraph (float[N,3] x) => (float[N,3] y) { y = own.f (x) }
        <domain: "own", opset_import: ["" : 18]> f (a) => (d) {
            b = Identity (a)
            c = Constant <value = float[3] {1, 2, 3}> ()
            e = Neg (c)
            d = Add (b, e)
        }"""
    import onnx

    model = onnx.parser.parse_model(text)
    result, counts = optimize(model, [pass_of("IdentityPass"), pass_of("ConstantFoldingPass")])
    assert [node.op_type for node in result.functions[0].node] == ["Constant", "Neg", "Add"]
    assert {count.graph_id for count in counts if count.effected} == {1}
    onnx.checker.check_model(result, full_check=True)


def test_a_sparse_initializer_is_a_value_of_its_own_graph() -> None:
    """Also where only subgraphs read it: both read the same one."""
    model = parse("""agraph (float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] p) { p = Add (x, w) },
                    else_branch = e () => (float[3] q) { q = Mul (x, w) }> }""")
    values, places = (
        numpy_helper.from_array(np.array([n], d), "w") for n, d in ((2, np.float32), (1, np.int64))
    )
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    graph = typed_model(model, "").main
    (choice,) = graph.nodes
    read = [node.inputs[1] for body in choice.bodies for node in body.nodes]
    assert read == [graph.values["w"]] * 2 and not graph.values["w"].is_constant
