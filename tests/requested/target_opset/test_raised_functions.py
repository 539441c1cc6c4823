"""Functions that import another opset than the model are raised, call by call, with the types of what they read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import all_nodes, parse, session
from onnx import ModelProto

from fusionc.errors import UsageError
from fusionc.requested.target_opset import raise_opset

MEAN = """<domain: "my", opset_import: ["" : 13]> mean <axes> (a) => (r) {
    s = ReduceMean <axes: ints = @axes, keepdims: int = 0> (a)
    r = Softmax <axis: int = 0> (s) }"""
OLD = """<domain: "my", opset_import: ["" : 11, "my" : 1]> old (a) => (r) {
    s = Softmax (a)
    t = Clip (s)
    r = my.mean <axes: ints = [1]> (t) }"""
NEW = '<domain: "my", opset_import: ["" : 20]> new (a) => (r) { r = Gelu (a) }'
SAME = '<domain: "my", opset_import: ["" : 20]> same (a) => (r) { r = Neg (a) }'
BRANCHES = """agraph (float[2,3] x, bool c) => (float[2] y) {
    h = Relu (x)
    y = If (c) <then_branch = t () => (float[2] p) { p = my.mean <axes: ints = [1]> (h) },
                else_branch = e () => (float[2] q) { q = my.old (h) }> }"""
MODELS = {
    "one call": "agraph (float[2,3] x) => (float[2] y) { y = my.mean <axes: ints = [1]> (x) }",
    "two calls": "agraph (float[2,3] x) => (float[2] y) { a = my.mean <axes: ints = [1]> (x) "
                 "b = my.mean <axes: ints = [-1]> (x) y = Add (a, b) }",
    "one in another": "agraph (float[2,3] x) => (float[2] y) { a = Relu (x) y = my.old (a) }",
    "in subgraphs": BRANCHES,
}  # fmt: skip


def mean(x: np.ndarray) -> np.ndarray:
    return softmax(x.mean(1), 0)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


EXPECTED = {
    "one call": lambda x: mean(x),
    "two calls": lambda x: mean(x) * 2,
    "one in another": lambda x: mean(softmax(np.maximum(x, 0), 1)),
    "in subgraphs": lambda x: mean(np.maximum(x, 0)),
}


def with_functions(text: str, opset: int, *functions: str) -> ModelProto:
    model = parse(text, opset)
    model.functions.extend(map(onnx.parser.parse_function, functions))
    return model


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("case", MODELS)
def test_the_same_numbers(case: str, opset: int) -> None:
    result = raise_opset(with_functions(MODELS[case], opset, MEAN, OLD), 22)
    assert not result.functions and {
        entry.domain: entry.version for entry in result.opset_import
    } == {"": 22}
    onnx.checker.check_model(result, full_check=True)
    made = [name for node in all_nodes(result) for name in node.output if name]
    assert len(made) == len(set(made))
    x = np.float32([[-1, 2, 0.5], [3, -0.25, 1]])
    feeds = (
        {"x": x, "c": np.array(True)}
        if "c" in {value.name for value in result.graph.input}
        else {"x": x}
    )
    (y,) = session(result).run(None, feeds)
    np.testing.assert_allclose(y, EXPECTED[case](x), rtol=1e-5)
    if "c" in feeds:
        (y,) = session(result).run(None, feeds | {"c": np.array(False)})
        np.testing.assert_allclose(y, EXPECTED["one in another"](x), rtol=1e-5)


def test_a_function_of_a_newer_opset() -> None:
    model = with_functions("agraph (float[2] x) => (float[2] y) { y = my.new (x) }", 17, NEW)
    with pytest.raises(UsageError, match="the function new of the model has opset 20") as caught:
        raise_opset(model, 18)
    assert caught.value.hint == "give at least 20"
    text = "agraph (float[2] x) => (float[2] y) { y = my.same (x) }"
    for version in (18, 20, 22):
        assert [
            n.op_type for n in raise_opset(with_functions(text, 17, SAME), version).graph.node
        ] == ["Neg"]
    model = with_functions("agraph (float[2] x) => (float[2] y) { y = my.new (x) }", 17, NEW)
    assert [node.op_type for node in raise_opset(model, 21).graph.node] == ["Gelu"]
