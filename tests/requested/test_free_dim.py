"""--free_dim: sizes of inputs become symbolic, or the error says what holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from test_input_shape import declared

import fusionc
from fusionc.errors import UsageError
from fusionc.requested.free_dim import free_sizes
from fusionc.requested.requests import Requests

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

FREES = {
    "a product": (
        "agraph (float[1,4] x) => (float[1,2] y) <float[4,2] w = {1,2,3,4,5,6,7,8}, float[1,4] a>"
        "{ a = Relu (x) y = MatMul (a, w) }",
        {"x": {0: ""}},
        {"x": ("batch", 4), "a": ("batch", 4), "y": ("batch", 2)},
    ),
    "what is left over": (
        "agraph (float[1,2,6] x) => (float[1,3,4] y, float[12] z) <int64[3] s = {-1,3,4}, "
        "int64[1] t = {-1}>"
        "{ y = Reshape (x, s) z = Reshape (x, t) }",
        {"x": {0: "N"}},
        {"x": ("N", 2, 6), "y": ("N", 3, 4), "z": ("?",)},
    ),
    "a size that is copied": (
        "agraph (float[3,2,6] x) => (float[3,12] y) <int64[2] s = {0,-1}> { y = Reshape (x, s) }",
        {"x": {0: ""}},
        {"x": ("batch", 2, 6), "y": ("batch", 12)},
    ),
    "axes that are joined and parted": (
        "agraph (float[2,3,4] x) => (float[2,3,2] y)"
        "<float[4,2] w = {1,2,3,4,5,6,7,8}, int64[2] s = {-1,4}, int64[3] t = {-1,3,2}>"
        "{ a = Reshape (x, s) b = MatMul (a, w) y = Reshape (b, t) }",
        {"x": {0: ""}},
        {"x": ("batch", 3, 4), "y": ("batch", 3, 2)},
    ),
    "height and width": (
        "agraph (float[1,1,8,8] x) => (float[1,1,4,4] y, float[1,1,1,1] z) <float[1,1,3,3] w = "
        "{1,2,3,4,5,6,7,8,9}>"
        "{ y = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w) z = GlobalAveragePool (y) }",
        {"x": {2: "H", 3: "W"}},
        {"x": (1, 1, "H", "W"), "y": (1, 1, "?", "?"), "z": (1, 1, 1, 1)},
    ),
    "another axis that is open already": (
        "agraph (float[N,1,8] x) => (float[N,1,4] y) <float[1,1,3] w = {1,2,3}>"
        "{ y = Conv <pads = [1,1], strides = [2]> (x, w) }",
        {"x": {2: "L"}},
        {"x": ("N", 1, "L"), "y": ("N", 1, "?")},
    ),
    "equal sizes of two inputs": (
        (
            "agraph (float[5,4] x, float[5,4] z, float[4] w) => (float[5,4] y) { a = Add (x, z) "
            "y = Add (a, w) }"
        ),
        {"x": {0: ""}, "z": {0: ""}},
        {"x": ("batch", 4), "z": ("batch", 4), "w": (4,), "y": ("batch", 4)},
    ),
    "a name that is given to another input": (
        (
            "agraph (float[2,4] x, float[2,4] z) => (float[2,4] y, float[2,4] u) { y = Relu (x) "
            "u = Relu (z) }"
        ),
        {"x": {0: ""}, "z": {1: "batch"}},
        {"x": ("batch_1", 4), "z": (2, "batch"), "y": ("batch_1", 4), "u": (2, "batch")},
    ),
    "a name that is taken": (
        (
            "agraph (float[2,4] x, float[batch,4] z) => (float[2,4] y, float[batch,4] u) { y = "
            "Relu (x) u = Relu (z) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch_1", 4), "z": ("batch", 4), "y": ("batch_1", 4), "u": ("batch", 4)},
    ),
    "nodes in another order": (
        "agraph (float[2,4] x) => (float[2,4] y) <float[2,4] a> { y = Neg (a) a = Relu (x) }",
        {"x": {0: ""}},
        {"x": ("batch", 4), "a": ("batch", 4), "y": ("batch", 4)},
    ),
    "the batch of a constant shape": (
        (
            "agraph (float[1,64,4,4] x) => (float[1,1024] y) <int64[2] s = {1,1024}> { y = "
            "Reshape (x, s) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch", 64, 4, 4), "y": ("batch", 1024)},
    ),
    "the batch beside what is left over": (
        "agraph (float[1,2,6] x) => (float[1,12] y) <int64[2] s = {1,-1}> { y = Reshape (x, s) }",
        {"x": {0: ""}},
        {"x": ("batch", 2, 6), "y": ("batch", 12)},
    ),
    "the batch behind its axis, beside what is left over": (
        (
            "agraph (float[2,2,6] x) => (float[1,2,12] y) <int64[3] s = {1,2,-1}> { y = Reshape "
            "(x, s) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch", 2, 6), "y": (1, "batch", 12)},
    ),
    "two axes of a constant shape": (
        (
            "agraph (float[1,3,4,5] x) => (float[1,3,20] y) <int64[3] s = {1,3,20}> { y = "
            "Reshape (x, s) }"
        ),
        {"x": {0: "", 2: "H"}},
        {"x": ("batch", 3, "H", 5), "y": ("batch", 3, "?")},
    ),
    "a batch that is joined to heads": (
        (
            "agraph (float[1,8,6,4] x) => (float[8,6,4] y) <int64[3] s = {8,6,4}>{ a = Reshape "
            "(x, s) y = Softmax (a) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch", 8, 6, 4), "y": ("?", 6, 4)},
    ),
    "an axis before which another one is put": (
        "agraph (float[6,4] x) => (float[1,6,4] y) <int64[3] s = {1,6,4}> { y = Reshape (x, s) }",
        {"x": {0: ""}},
        {"x": ("batch", 4), "y": (1, "batch", 4)},
    ),
    "axes that are joined to a constant size": (
        "agraph (float[2,3,4] x) => (float[6,4] y) <int64[2] s = {6,4}> { y = Reshape (x, s) }",
        {"x": {1: ""}},
        {"x": (2, "dim_1", 4), "y": ("?", 4)},
    ),
    "a Reshape behind a Reshape, and one behind both": (
        "agraph (float[2,6] x) => (float[2,6] y) <int64[3] s = {2,2,3}, int64[2] t = {2,6}, "
        "int64[2] u = {-1,6}>"
        "{ a = Reshape (x, s) b = Reshape (a, t) y = Reshape (b, u) }",
        {"x": {0: ""}},
        {"x": ("batch", 6), "y": ("batch", 6)},
    ),
    "a shape that two Reshapes share, one of which holds nothing": (
        "agraph (float[2,6] x, float[2,6] z) => (float[2,2,3] y, float[2,2,3] u) <int64[3] s = "
        "{2,2,3}>"
        "{ y = Reshape (x, s) u = Reshape (z, s) }",
        {"x": {0: ""}},
        {"x": ("batch", 6), "z": (2, 6), "y": ("batch", 2, 3), "u": (2, 2, 3)},
    ),
    "a shape that is computed of constants": (
        "agraph (float[2,6] x) => (float[2,2,3] y) <int64[1] s = {2}, int64[1] t = {3}>"
        "{ u = Concat <axis = 0> (s, s, t) y = Reshape (x, u) }",
        {"x": {0: ""}},
        {"x": ("batch", 6), "y": ("batch", 2, 3)},
    ),
    "Reshapes in both branches": (
        "agraph (float[2,6] x, bool c) => (float[2,6] y) <int64[2] s = {2,6}, int64[2] t = "
        "{4,3}> { z = If (c) <"
        "then_branch = g () => (float[2,6] u) { a = Reshape (x, s) u = Relu (a) }, "
        "else_branch = h () => (float[2,6] v) { a = Reshape (x, t) b = Neg (a) v = Reshape (b, "
        "s) }> "
        "y = Relu (z) }",
        {"x": {0: ""}},
        {"x": ("batch", 6), "c": (), "y": ("batch", 6)},
    ),
    "names of what another dimension makes": (
        "agraph (float[1,1,h,w] x) => (float[1,1,rows,columns] y) <float[1,1,3,3] k = "
        "{1,2,3,4,5,6,7,8,9}>"
        "{ y = Conv <strides = [2,2]> (x, k) }",
        {"x": {0: ""}},
        {"x": ("batch", 1, "h", "w"), "y": ("batch", 1, "rows", "columns")},
    ),
    "another name of a dimension": (
        "agraph (float[1,length] x) => (float[1,tokens] y) { y = Relu (x) }",
        {"x": {0: ""}},
        {"x": ("batch", "length"), "y": ("batch", "tokens")},
    ),
    "a name of what values decide": (
        (
            "agraph (float[1,length] x) => (int64[2,found] y, int64[2,found] z) { y = NonZero "
            "(x) z = Neg (y) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch", "length"), "y": (2, "found"), "z": (2, "found")},
    ),
    "a name that means the size of an input": (
        (
            "agraph (float[1,length,8] x) => (float[length,8] y) <int64[2] s = {-1,8}> { y = "
            "Reshape (x, s) }"
        ),
        {"x": {0: ""}},
        {"x": ("batch", "length", 8), "y": ("?", 8)},
    ),
    "a name of two values that differ by the size": (
        "agraph (float[1,length] x, float[length] z) => (float[n] y, float[n] u) <int64[1] s = "
        "{-1}>"
        "{ y = Reshape (x, s) u = Relu (z) }",
        {"x": {0: ""}},
        {"x": ("batch", "length"), "z": ("length",), "y": ("?",), "u": ("n",)},
    ),
    "shape arithmetic": (
        "agraph (float[2,3,4] x) => (float[2,12] y) <int64[1] i = {0}, int64[1] r = {-1}>"
        "{ s = Shape (x) n = Gather (s, i) t = Concat <axis = 0> (n, r) y = Reshape (x, t) }",
        {"x": {0: ""}},
        {"x": ("batch", 3, 4), "y": ("batch", 12)},
    ),
}


@pytest.mark.parametrize("name", FREES)
def test_what_depends_on_no_size_becomes_symbolic(name: str) -> None:
    text, given, expected = FREES[name]
    model = parse(text)
    freed = free_sizes(model, given)
    assert declared(model) == expected
    once_more = parse(text)
    freed.again(once_more)
    assert once_more == model


HELD = {
    "a Resize to constant sizes that keeps the batch": (
        (
            "agraph (float[1,1,4,4] x) => (float[1,1,8,8] y) <int64[4] s = {1,1,8,8}> { y = "
            "Resize (x, , , s) }"
        ),
        {"x": {0: ""}},
        ["Resize y: it selects a whole axis, and with another size it would select only a part"],
    ),
    "the largest, as many as there are": (
        "agraph (float[2,4] x) => (float[2,4] y) <int64[1] k = {4}> { y, i = TopK (x, k) }",
        {"x": {1: ""}},
        ["TopK y: it selects a whole axis, and with another size it would select only a part"],
    ),
    "a Reshape that may be a Transpose": (
        "agraph (float[1,6,4] x) => (float[6,1,4] y) <int64[3] s = {6,1,4}> { y = Reshape (x, s) }",
        {"x": {0: ""}},
        ["Reshape y: its shape is the constant [6, 1, 4]"],
    ),
    "a size that may belong to either of its neighbours": (
        "agraph (float[4,1,5] x) => (float[4,5] y) <int64[2] s = {4,5}> { y = Reshape (x, s) }",
        {"x": {1: ""}},
        ["Reshape y: its shape is the constant [4, 5]"],
    ),
    "a batch that may part again, or not": (
        "agraph (float[1,8,6,4] x) => (float[1,8,6,4] y) <int64[3] s = {8,6,4}, int64[4] t = "
        "{1,8,6,4}>"
        "{ a = Reshape (x, s) b = Softmax (a) y = Reshape (b, t) }",
        {"x": {0: ""}},
        ["Reshape y: its shape is the constant [1, 8, 6, 4]"],
    ),
    "one of several ones": (
        "agraph (float[1,6] x) => (float[1,1,6] y) <int64[3] s = {1,1,6}> { y = Reshape (x, s) }",
        {"x": {0: ""}},
        ["Reshape y: its shape is the constant [1, 1, 6]"],
    ),
    "two sizes of a shape that moves both": (
        (
            "agraph (float[2,3,4] x) => (float[1,2,12] y) <int64[3] s = {1,2,12}> { y = Reshape "
            "(x, s) }"
        ),
        {"x": {0: "", 1: ""}},
        ["Reshape y: its shape is the constant [1, 2, 12]"],
    ),
    "a Reshape with one reading, and a constant": (
        "agraph (float[2,6] x) => (float[2,2,3] y) <int64[3] s = {2,2,3}, float[2,2,1] w = "
        "{1,2,3,4}>"
        "{ a = Reshape (x, s) y = Add (a, w) }",
        {"x": {0: ""}},
        ["Add y: the constant w is [2, 2, 1]"],
    ),
    "a constant that is added": (
        (
            "agraph (float[2,3] x) => (float[2,3] y) <float[1,3] p = {1,2,3}> { a = Relu (x) y = "
            "Add (a, p) }"
        ),
        {"x": {1: ""}},
        ["Add y: the constant p is [1, 3]"],
    ),
    "what is made of constants": (
        (
            "agraph (float[2,3] x) => (float[2,3] y) <int64[2] s = {1,3}> { c = ConstantOfShape "
            "(s) y = Add (x, c) }"
        ),
        {"x": {1: ""}},
        ["Add y: the constant c is [1, 3]"],
    ),
    "another input": (
        "agraph (float[2,3] x, float[2,3] z) => (float[4,3] y) { y = Concat <axis = 0> (x, z) }",
        {"x": {1: ""}},
        ["Concat y: z is [2, 3]"],
    ),
    "channels": (
        "agraph (float[1,2,4,4] x) => (float[1,1,2,2] y) <float[1,2,3,3] w> { y = Conv (x, w) }",
        {"x": {1: ""}},
        ["Conv y: the constant w is [1, 2, 3, 3]"],
    ),
    "one of several operands": (
        "agraph (float[2,3] x, float[3] z) => (float[2,3] y) { y = Max (x, z) }",
        {"x": {1: ""}},
        ["Max y: z is [3]"],
    ),
    "the parts of an axis": (
        "agraph (float[2,12] x) => (float[2,3,4] y) <int64[3] s = {-1,3,4}> { y = Reshape (x, s) }",
        {"x": {1: ""}},
        ["Reshape y: its shape is the constant [-1, 3, 4]"],
    ),
    "a state that is expanded to the size": (
        "agraph (float[2,3] x) => (float[2,3] y)"
        "<float[2,1] h = {1,2}, int64[1] i = {0}, int64[1] t = {3}>"
        "{ s = Shape (x) n = Gather (s, i) c = Concat <axis = 0> (n, t) e = Expand (h, c) y = "
        "Add (x, e) }",
        {"x": {0: ""}},
        ["Expand e: the constant h is [2, 1], c is [2]"],
    ),
    "weights": (
        (
            "agraph (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul "
            "(x, w) }"
        ),
        {"x": {1: ""}},
        ["MatMul y: the constant w is [3, 2]"],
    ),
    "a shape to expand to": (
        "agraph (float[2,3] x) => (float[4,2,3] y) <int64[3] s = {4,2,3}> { y = Expand (x, s) }",
        {"x": {0: ""}},
        ["Expand y: its shape is the constant [4, 2, 3]"],
    ),
    "a Slice up to the size": (
        "agraph (float[2,3] x) => (float[2,3] y) <int64[1] b = {0}, int64[1] e = {3}, int64[1] a "
        "= {1}>"
        "{ y = Slice (x, b, e, a) }",
        {"x": {1: ""}},
        ["Slice y: it selects a whole axis, and with another size it would select only a part"],
    ),
    "a Gather of all": (
        (
            "agraph (float[2,3] x) => (float[2,3] y) <int64[3] i = {2,1,0}> { y = Gather <axis = "
            "1> (x, i) }"
        ),
        {"x": {1: ""}},
        ["Gather y: it selects a whole axis, and with another size it would select only a part"],
    ),
    "a Squeeze": (
        "agraph (float[1,3] x) => (float[3] y) <int64[1] a = {0}> { y = Squeeze (x, a) }",
        {"x": {0: ""}},
        ["Squeeze y: the constant a is [1]"],
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_holds_a_size_is_named(name: str) -> None:
    text, given, expected = HELD[name]
    model = parse(text)
    before = model.SerializeToString()
    with pytest.raises(UsageError) as caught:
        free_sizes(model, given)
    assert list(caught.value.details) == expected and model.SerializeToString() == before


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"w": {0: ""}}, "the model has no input w"),
        ({"x": {2: ""}}, "x has no dimension 2"),
        ({"x": {1: ""}}, r"x\[1\] is not fixed"),
        (
            {"x": {0: "rows"}, "z": {0: "rows"}},
            r"rows cannot mean both 2 and 3, the size of z\[0\]",
        ),
        ({"x": {0: "3"}}, r"x\[0\] cannot be called 3"),
        ({"x": {0: "n*2"}}, r"x\[0\] cannot be called n\*2"),
    ],
)
def test_what_there_is_not_to_free(given: dict[str, dict[int, str]], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        free_sizes(
            parse("agraph (float[2,n] x, float[3] z) => (float[2,n] y) { y = Relu (x) }"), given
        )


def test_the_result_runs_with_other_sizes() -> None:
    model = parse(FREES["axes that are joined and parted"][0])
    result, report = fusionc.optimize(model, free_dim={"x": [0]})
    assert report.verification == "equal in 7 runs"
    feeds = {"x": np.arange(60, dtype=np.float32).reshape(5, 3, 4)}
    options: dict[str, Any] = {"providers": ["CPUExecutionProvider"]}
    [found] = onnxruntime.InferenceSession(result.SerializeToString(), **options).run(None, feeds)
    session = onnxruntime.InferenceSession(model.SerializeToString(), **options)
    assert np.allclose(found[:2], session.run(None, {"x": feeds["x"][:2]})[0])
    assert np.allclose(found[3:], session.run(None, {"x": feeds["x"][3:]})[0])


def test_what_only_a_run_shows() -> None:
    model = parse(
        "agraph (float[2,3] x) => (float[4,3] y) <int64[2,1] i = {0,1}, int64[2] s = {4,3}>"
        "{ c = ConstantOfShape (s) y = ScatterND (c, i, x) }"
    )
    with pytest.raises(UsageError, match=r"does not run with another size: .*ScatterND"):
        fusionc.optimize(model, free_dim={"x": [0]}, verify=False)


def test_a_symbol_that_another_dimension_of_the_input_has() -> None:
    model = parse("agraph (float[N,4] x) => (float[N,4] y) { y = Relu (x) }")
    result, report = fusionc.optimize(model, free_dim={"x": {1: "N"}})
    assert declared(result) == {
        "x": ("N", "N"),
        "y": ("N", "N"),
    } and report.verification.startswith("equal")


def test_a_conversion_that_is_repeated_frees_sizes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [
        parse("agraph (float[1,4] x) => (float[1,4] y, float[1,4] z) { y = Relu (x) z = Exp (y) }")
        for _ in "12"
    ]
    requests = Requests(free_dim={"x": {0: ""}}, out_nodes="z")
    freed = requests.apply(models[0], "")
    monkeypatch.setattr("fusionc.requested.requests.free_sizes", None)
    assert requests.apply(models[1], "", freed) is freed and models[0] == models[1]
    assert freed is not None and freed.sizes == {"x": {0: 1}}


def test_the_symbol_that_was_asked_for() -> None:
    onnx.save(parse(FREES["equal sizes of two inputs"][0]), "m.onnx")
    fusionc.convert("m.onnx", output="o.onnx", free_dim={"x": {0: "rows"}, "z": {0: "rows"}})
    assert declared(onnx.load("o.onnx"))["y"] == ("rows", 4)


def test_a_sequence_stays_one_without_its_sizes() -> None:
    model = parse("agraph (float[2,4] x) => (seq(float[2,4]) y) { y = SequenceConstruct (x) }")
    free_sizes(model, {"x": {0: ""}})
    held = model.graph.output[0].type.sequence_type.elem_type.tensor_type
    assert held.elem_type == onnx.TensorProto.FLOAT and not held.HasField("shape")


def test_a_declaration_of_a_value_of_another_graph() -> None:
    model = parse("""agraph (float[2,4] x, bool c) => (float[2,4] y) { y = If (c) <
        then_branch = t () => (float[2,4] q) { p = Neg (x) q = Abs (p) },
        else_branch = e () => (float[2,4] r) { r = Abs (x) }> }""")
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, [2, 4])
    )
    free_sizes(model, {"x": {0: ""}})
    assert declared(model)["y"] == ("batch", 4)


def test_a_holder_beside_a_node_without_outputs_and_a_value_with_the_name_of_its_shape() -> None:
    model = parse("""agraph (float[2,6] x) => (float[2,2,3] y, float[2,6] z) <int64[3] s = {2,2,3}> {
        y = Reshape (x, s) z = Relu (x) }""")
    model.graph.node[1].output[0] = model.graph.output[1].name = "y/shape"
    model.graph.node.add(op_type="Print", domain="my", input=["x"])
    model.opset_import.add(domain="my", version=1)
    with pytest.raises(UsageError, match="the model needs exactly this size in one place"):
        free_sizes(model, {"x": {1: ""}})
