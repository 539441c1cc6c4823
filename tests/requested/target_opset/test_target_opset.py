"""Raising a model to a newer opset: what the converter loses is kept, subgraphs and functions are raised, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import all_nodes, assert_same_numbers, interface, parse, session
from onnx import ModelProto, helper

import fusionc
from fusionc.errors import FusioncError, UsageError
from fusionc.requested.target_opset import newest_opset, raise_opset

MEAN = "agraph (float[N,4] x) => (float[N,1] y) { a = Relu (x) m = ReduceMean <axes = [1]> (a) y = Neg (m) }"
BRANCHES = """agraph (float[N,4] x, bool c) => (float[N,1] y) <float[1] k> {
    h = Relu (x)
    y = If (c) <then_branch = t () => (float[N,1] p) { q = ReduceMean <axes = [1]> (h) p = Mul (q, k) },
                else_branch = e () => (float[N,1] r) { r = ReduceMax <axes = [1]> (h) }>
}"""


def raised(model: ModelProto, version: int = 23) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return raise_opset(copy, version)


@pytest.mark.parametrize(
    ("text", "opset"), [(MEAN, 17), (MEAN, 11), (BRANCHES, 17), (BRANCHES, 13)]
)
def test_the_same_numbers(text: str, opset: int) -> None:
    model = parse(text, opset)
    result = raised(model)
    assert result.opset_import[0].version == 23 and result.ir_version == 11
    onnx.checker.check_model(result, full_check=True)
    assert interface(result)[1:3] == interface(model)[1:3]
    assert_same_numbers(model, result, "bitwise", {})


REFUSED_OLD = [
    ("(float[3,4] x) => (float[3,4] y) { y = Dropout (x) }", "without is_test trains"),
    (
        "(float x, float[3] b, bool c) => (float z) { y = If (c) <then_branch = t () => (p) { p = my.f (x) }, "
        "else_branch = e () => (q) { q = my.g (x) }> s = Add <broadcast = 1, axis = 1> (y, b) z = ReduceSum (s) }",
        "Add aligns its operands differently .* the rank of an operand is unknown",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED_OLD)
def test_what_cannot_be_written_in_another_way(text: str, why: str) -> None:
    with pytest.raises(FusioncError, match=why):
        raised(parse(f"agraph {text}", 6), 13)


X = np.linspace(-1, 1, 72, dtype=np.float32).reshape(2, 3, 4, 3)
OF = "float[2,3,4,3] x, float"
TO = "=> (float[2,3,4,3] y)"
OLD = {
    "the last axes": (
        f"({OF}[4,3] b) {TO} {{ y = Add <broadcast = 1, axis = 2> (x, b) }}",
        lambda x, b: x + b,
    ),
    "an axis": (
        f"({OF}[3] b) {TO} {{ y = Mul <broadcast = 1, axis = 1> (x, b) }}",
        lambda x, b: x * b[:, None, None],
    ),
    "two axes": (
        f"({OF}[3,4] b) {TO} {{ y = Sub <broadcast = 1, axis = 1> (x, b) }}",
        lambda x, b: x - b[..., None],
    ),
    "from behind": (
        f"({OF}[3,4] b) {TO} {{ y = Div <broadcast = 1, axis = -3> (x, b) }}",
        lambda x, b: x / b[..., None],
    ),
    "the first axis": (
        f"({OF}[2] b) {TO} {{ y = Add <broadcast = 1, axis = 0> (x, b) }}",
        lambda x, b: x + b[:, None, None, None],
    ),
    "one element": (
        f"({OF}[1] b) {TO} {{ y = Add <broadcast = 1, axis = 1> (x, b) }}",
        lambda x, b: x + b,
    ),
    "behind others": (
        f"({OF}[3] b) {TO} {{ a = Neg (x) y = Mul <broadcast = 1, axis = 1> (a, b) }}",
        lambda x, b: -x * b[:, None, None],
    ),
    "a slope": (f"({OF}[1] b) {TO} {{ y = PRelu (x, b) }}", lambda x, b: np.where(x < 0, x * b, x)),
    "slopes": (
        f"({OF}[3] b) {TO} {{ y = PRelu (x, b) }}",
        lambda x, b: np.where(x < 0, x * b[:, None, None], x),
    ),
    "nothing": (f"({OF}[1] b) {TO} {{ y = Dropout <is_test = 1> (x) }}", lambda x, b: x),
}


@pytest.mark.parametrize("case", OLD)
def test_what_was_broadcast_in_another_way(case: str) -> None:
    text, expected = OLD[case]
    result = raised(parse(f"agraph {text}", 6), 13)
    onnx.checker.check_model(result, full_check=True)
    shape = [dim.dim_value for dim in result.graph.input[1].type.tensor_type.shape.dim]
    b = np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(session(result).run(None, {"x": X, "b": b})[0], expected(X, b))


def test_a_model_that_is_too_old_to_run_is_compared_as_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(f"agraph {OLD['an axis'][0]}", 6), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", target_opset=13)
    assert report.verification is not None and report.verification.startswith("equal")
    said = "does not run this model of opset 6: the result is compared with the model as raised to opset 13"
    assert [said in notice for notice in report.notices] == [True]


def test_what_does_not_change_keeps_everything() -> None:
    model = parse(MEAN, 17)
    for node in model.graph.node:
        node.name = f"the {node.op_type}"
        node.doc_string = "from the original"
        node.metadata_props.add(key="where", value=node.op_type)
    result = raised(model)
    kept = {node.output[0]: node for node in result.graph.node}
    assert kept["a"] == model.graph.node[0] and kept["y"] == model.graph.node[2]
    changed = kept["m"]
    assert changed != model.graph.node[1]
    assert (changed.name, changed.doc_string) == ("the ReduceMean", "from the original")
    assert changed.metadata_props == model.graph.node[1].metadata_props


def test_subgraphs_are_raised_once() -> None:
    """The ratio of a Dropout becomes an input; raised again, there would be one more."""
    model = parse(
        """agraph (float[N,4] x, bool c) => (float[N,4] y) {
            y = If (c) <then_branch = t () => (float[N,4] p) { p = Dropout <ratio = 0.3> (x) },
                        else_branch = e () => (float[N,4] q) { q = Clip <min = 0.0> (x) }>
        }""",
        10,
    )
    result = raised(model)
    onnx.checker.check_model(result, full_check=True)
    inputs = {node.op_type: len(node.input) for node in all_nodes(result)}
    assert {op: inputs[op] for op in ("Dropout", "Clip")} == {"Dropout": 2, "Clip": 2}
    assert_same_numbers(model, result, "bitwise", {})


def test_made_values_have_names_of_their_own() -> None:
    result = raised(parse(BRANCHES, 17))
    made = [name for node in all_nodes(result) for name in node.output]
    assert len(made) == len(set(made))


def test_functions_are_inlined() -> None:
    model = parse("agraph (float[N,4] x) => (float[N,1] y) { y = own.mean (x) }", 17)
    imports = [helper.make_opsetid("", 17)]
    body = [helper.make_node("ReduceMean", ["a"], ["b"], axes=[1])]
    model.functions.append(helper.make_function("own", "mean", ["a"], ["b"], body, imports))
    result = raised(model)
    assert not result.functions
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "bitwise", {})


def test_large_weights_stay_where_they_are() -> None:
    model = parse(
        "agraph (float[N,64] x) => (float[N,64] y) <float[64,64] W> { y = MatMul (x, W) }", 17
    )
    result = raised(model)
    assert list(result.graph.initializer) == list(model.graph.initializer)
    assert list(result.graph.input) == list(model.graph.input)


def test_initializers_that_had_to_be_inputs() -> None:
    model = parse(
        "agraph (float[N,4] x) => (float[N,4] y) <float[4] k> { y = Add (x, k) }", 8, ir_version=3
    )
    result = raised(model)
    assert [value.name for value in result.graph.input] == ["x"]
    onnx.checker.check_model(result, full_check=True)


def test_its_own_opset_changes_nothing() -> None:
    model = parse(BRANCHES, 17)
    assert raised(model, 17) == model


def test_a_model_is_not_lowered_nor_raised_beyond_the_runtime() -> None:
    with pytest.raises(UsageError, match="the model's opset is already 17"):
        raised(parse(MEAN, 17), 16)
    with pytest.raises(UsageError, match=f"runs models up to opset {newest_opset()}"):
        raised(parse(MEAN, 17), newest_opset() + 1)


def test_types_for_which_onnxruntime_has_an_operator_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs Relu of integers by the operator's definition, and only where the model has the opset of that."""
    monkeypatch.chdir(tmp_path)
    onnx.save(
        parse("agraph (int64[N,3] x) => (int64[N,3] y) { a = Relu (x) y = Neg (a) }", 18), "in.onnx"
    )
    fusionc.convert("in.onnx", output="same.onnx")
    with pytest.raises(UsageError, match="no kernel for Relu of opset 14 that takes int64"):
        fusionc.convert("in.onnx", output="out.onnx", target_opset=21)
    assert not Path("out.onnx").exists()


def test_what_onnxruntime_turns_out_not_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mish is made of a Softplus, which is made of others at opset 18 alone. No temporary path is told."""
    monkeypatch.chdir(tmp_path)
    onnx.save(parse("agraph (double[N,3] x) => (double[N,3] y) { y = Mish (x) }", 18), "in.onnx")
    with pytest.raises(
        UsageError,
        match="the model cannot be raised to this opset: onnxruntime cannot load the result: ",
    ) as caught:
        fusionc.convert("in.onnx", output="out.onnx", target_opset=21)
    assert (
        ".fusionc" not in str(caught.value)
        and caught.value.hint == "nothing was written; give another opset"
    )


def test_passes_that_need_a_newer_opset(tmp_path: Path) -> None:
    text = """agraph (float[N,8] x) => (float[N,8] y) <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
        d = Div (x, r) e = Erf (d) a = Add (e, one) h = Mul (x, a) y = Mul (h, half) }"""
    onnx.save(parse(text, 17), tmp_path / "gelu.onnx")
    report = fusionc.convert(tmp_path / "gelu.onnx", output=tmp_path / "out.onnx", target_opset=20)
    assert report.operators_after == {"Gelu": 1} and report.verification.startswith("equal")
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 20


GELU = "b = Div (a, r)  c = Erf (b)  d = Add (c, one)  e = Mul (a, d)  y = Mul (e, half)"
NORM = """m = ReduceMean <axes = [-1]> (x)  z = Sub (x, m)  s = Mul (z, z)  v = ReduceMean <axes = [-1]> (s)
    w = Add (v, tiny)  q = Sqrt (w)  n = Div (z, q)  k = Mul (n, g)  a = Add (k, h)"""
WRITTEN = f"""agraph (float[N,8] x) => (float[N,8] y) <float r = {{1.4142135}}, float one = {{1}}, float half = {{0.5}},
    float tiny = {{0.00001}}, float[8] g = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[8] h = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{
    {NORM} {GELU} }}"""


def hints(text: str, opset: int, target: str = "onnxruntime-cpu", **options: Any) -> list[str]:
    onnx.save(parse(text, opset), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", target=target, verify=False, **options)
    return [notice for notice in report.notices if "--target_opset" in notice]


def test_what_is_refused_for_its_opset_names_the_one_that_would_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    gelu = WRITTEN.replace(NORM, "a = Neg (x)")
    assert hints(gelu, 17, "onnx") == ["--target_opset 20 would allow: GeluFusionPass (1)"]
    assert (
        hints(WRITTEN, 13, "onnx", optimization_switch="RmsNormFusionPass:off")
        == [
            "--target_opset 20 would allow: GeluFusionPass (1), LayerNormFusionPass (2, from 17)"  # by two patterns
        ]
    )
    assert hints(gelu, 20, "onnx") == []
    report = fusionc.convert("in.onnx", output="out.onnx", target="onnx")
    assert {total.name: total.effected for total in report.passes()}["GeluFusionPass"] == 1


def test_no_opset_is_advised_for_a_place_that_another_pass_rewrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """BiasGeluFusionPass rewrites the sum and what GeluFusionPass refuses before opset 20."""
    monkeypatch.chdir(tmp_path)
    biased = WRITTEN.replace(NORM, "a = Add (x, g)")
    assert hints(biased, 17) == []
    (total,) = [
        total
        for total in fusionc.convert("in.onnx", output="out.onnx", verify=False).passes()
        if total.name == "GeluFusionPass"
    ]
    assert total.matched > total.effected == 0  # it was refused all the same
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["BiasGelu"]
    assert hints(biased, 17, "onnx") == ["--target_opset 20 would allow: GeluFusionPass (1)"]


def test_an_opset_that_would_not_help_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """onnxruntime has no kernel for Mish, in whatever version."""
    monkeypatch.chdir(tmp_path)
    mish = (
        "agraph (float[N,8] x) => (float[N,8] y) { a = Softplus (x)  b = Tanh (a)  y = Mul (x, b) }"
    )
    assert hints(mish, 17, "onnx") == ["--target_opset 18 would allow: MishFusionPass (1)"]
    assert hints(mish, 17) == []
    monkeypatch.setattr("fusionc.requested.target_opset.advice.newest_opset", lambda: 17)
    assert hints(mish, 17, "onnx") == []


UPSAMPLED = 'u = Upsample <mode = "linear"> (x, k)'


@pytest.mark.parametrize(
    ("rest", "outputs"),
    [
        ("y = Relu (u)", "float[1,4,12,12] y"),
        (
            "y = If (c) <then_branch = t () => (float[1,4,12,12] p) { p = Neg (u) }, "
            "else_branch = e () => (float[1,4,12,12] q) { q = Abs (u) }>",
            "float[1,4,12,12] y",
        ),
    ],
)
def test_what_is_written_anew_inside_a_graph_keeps_its_meaning_and_its_name(
    rest: str, outputs: str
) -> None:
    text = f"agraph (float[1,4,6,6] x, bool c) => ({outputs}) <float[4] k = {{1,1,2,2}}> {{ {UPSAMPLED} {rest} }}"
    model = parse(text, 9)
    model.graph.node[0].name = "the Upsample"
    result = raised(model, 13)
    onnx.checker.check_model(result, full_check=True)
    resize = next(node for node in result.graph.node if node.op_type == "Resize")
    assert (resize.name, list(resize.output)) == ("the Upsample", ["u"])
    assert_same_numbers(model, result, "rounding", {})


def test_a_weight_that_is_an_output_itself() -> None:
    model = parse(
        "agraph (float[N,4] x) => (float[N,1] y, float[64,64] w) { y = ReduceMean <axes = [1]> (x) }",
        17,
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    assert_same_numbers(model, raised(model, 18), "bitwise", {})
