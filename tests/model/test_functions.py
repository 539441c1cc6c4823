"""Calls of model-local functions become nodes: attributes and their defaults, subgraphs, names,
other opsets.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import all_nodes, parse, session
from onnx import ModelProto

from fusionc.model.functions import inlined
from fusionc.requested.target_opset import raise_opset

LEAKY = """<domain: "my", opset_import: ["" : 18]> f <alpha: float = 0.2> (a) => (r) {
    r = LeakyRelu <alpha: float = @alpha> (a) }"""
OUTER = """<domain: "my", opset_import: ["" : 18, "my" : 1]> g <beta: float = 0.5> (a) => (r, s) {
    t = my.f <alpha: float = @beta> (a)
    r = my.f (t)
    s = Neg (t) }"""
BRANCHES = """<domain: "my", opset_import: ["" : 18]> h <alpha: float = 0.3, gamma> (a, c) => (r) {
    d = Neg (a)
    r = If (c) <then_branch = t () => (p) { n = Abs (d) p = LeakyRelu <alpha: float = @alpha> (d) },
                else_branch = e () => (q) { n = Relu (d) q = Elu <alpha: float = @gamma> (n) }> }"""
PASSED = """<domain: "my", opset_import: ["" : 18]> p (a) => (same, again, twice) {
    twice = Add (a, a)  same = Identity (a)  again = Identity (same) }"""
IN_BODIES = """agraph (float[4] x, bool c) => (float[4] y) {
    d = my.f (x)
    y = If (c) <then_branch = t () => (float[4] p) { p = my.f <alpha: float = 0.7> (d) },
                else_branch = e () => (float[4] q) { q = my.h (d, c) }> }"""
TWO = "=> (float[4] y, float[4] z)"
MODELS = {
    "a default": f"agraph (float[4] x) {TWO} {{ y = my.f <alpha: float = 0.3> (x) z = my.f (x) }}",
    "functions in functions": f"agraph (float[4] x) {TWO} {{ y, v = my.g (x) z, w = my.g (y) }}",
    "subgraphs": (
        f"agraph (float[4] x, bool c) {TWO} {{ y = my.h (x, c) z = my.h <gamma: float = 2.0> (x, "
        f"c) }}"
    ),
    "calls in subgraphs": IN_BODIES,
    "outputs that are inputs": f"agraph (float[4] x) {TWO} {{ y, z, v = my.p (x) }}",
}


def with_functions(text: str, *functions: str) -> ModelProto:
    model = parse(text)
    model.functions.extend(
        map(onnx.parser.parse_function, functions or (LEAKY, OUTER, BRANCHES, PASSED))
    )
    return model


def outputs(model: ModelProto) -> list[np.ndarray]:
    feeds = {"x": np.float32([-2, -0.5, 0, 3]), "c": np.array(True)}
    given = {value.name: feeds[value.name] for value in model.graph.input}
    other = given | {"c": np.array(False)} if "c" in given else given
    return [*session(model).run(None, given), *session(model).run(None, other)]


@pytest.mark.parametrize("case", MODELS)
def test_a_model_without_its_functions_computes_the_same(case: str) -> None:
    model = with_functions(MODELS[case])
    expected = outputs(model)
    result = inlined(model)
    assert not result.functions and {entry.domain for entry in result.opset_import} == {""}
    onnx.checker.check_model(result, full_check=True)
    made = [name for node in all_nodes(result) for name in node.output if name]
    assert len(made) == len(set(made))
    for ours, theirs in zip(outputs(result), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_functions_that_stay() -> None:
    """One that is asked to, what it calls, and one whose operators are others at the opset of the
    model.
    """
    other = (
        '<domain: "my", opset_import: ["" : 17]> o (a) => (r) { r = ReduceMax <axes = [0]> (a) }'
    )
    text = "agraph (float[4] x) => (float[4] y, float[4] z, float[1] v) { y, z = my.g (x)  v = my.o (x) }"
    result = inlined(with_functions(text, LEAKY, OUTER, other), {("my", "g")})
    assert [function.name for function in result.functions] == ["f", "g", "o"]
    assert [node.op_type for node in result.graph.node] == ["g", "o"]


def test_a_raised_model_has_the_defaults_of_its_functions() -> None:
    model = with_functions(MODELS["a default"])
    result = raise_opset(model, 20)
    assert [
        onnx.helper.get_node_attr_value(node, "alpha") for node in result.graph.node
    ] == pytest.approx([0.3, 0.2])
