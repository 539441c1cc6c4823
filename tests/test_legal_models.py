"""Legal models of forms that no table of a pass has: they are converted, and compute what they
did.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import parse, with_function

import fusionc
from fusionc.errors import FusioncError

CUT_SLICE = """agraph (float[N] x) => (float[M] y) <int32[1] z = {0}, int64[1] big = {9223372036854775807}> {
    e = Cast <to = 6> (big)  s = Slice (x, z, e)  y = Relu (s) }"""
CONSTANTS = ", ".join(f"float c{k} = {{{k}}}" for k in range(1200))
UNUSED = f"agraph (float[3] x) => (float[3] y) <{CONSTANTS}> {{ y = Relu (x) }}"
DECIDED_LATE = """agraph (float[4] x, bool d) => (float[4] y) <bool f = {0}, bool t = {1}> { k = Not (f)
    y = If (k) <then_branch = B () => (float[4] p) { p = If (t) <
            then_branch = D () => (float[4] q) { q = If (d) <
                then_branch = C1 () => (float[4] a) { a = Exp (x) },
                else_branch = C2 () => (float[4] b) { b = Neg (x) }> },
            else_branch = E () => (float[4] r) { r = Abs (x) }> },
        else_branch = F () => (float[4] s) { s = Relu (x) }> }"""
SCAN_WITH_DEFAULT = """agraph (float[3] s0, float[N,3] xs) => (float[3] y, float[N,3] ys) {
    y, ys = Scan <num_scan_inputs = 1,
        body = b (float[3] st, float[3] row, float[3] k) => (float[3] st2, float[3] o) <float[3] k = {1, 2, 3}> {
            st2 = Add (st, k)  o = Neg (row) }> (s0, xs) }"""
ONE_OPERAND = """agraph (float[1,4] x) => (float[3,4] e, float[3,4] y) <int64[2] s = {3, 4}> {
    e = Expand (x, s)  y = Sum (e) }"""
CARRIED_SEQUENCE = """agraph (float[2] x) => (float[m] y, int64[1] size)
    <bool yes = {1}, int64 n = {2}, int64 z = {0}> {
    s = SequenceConstruct (x)
    t = Loop (n, yes, s) <body = b (int64 i, bool c, seq(float[2]) old) => (bool c2, seq(float[2]) next) {
        c2 = Identity (c)  e = SequenceAt (old, z)  d = Concat <axis = 0> (e, e)  next = SequenceConstruct (d) }>
    y = SequenceAt (t, z)  size = Shape (y) }"""
RANK_5 = """agraph (float[N,1,1,L] x, float[A,1,1,1,1] a, float[1,Q,L] w) => (float[A,N,Q,L] y)
    <float[1,1,1,3] W = {1, 2, 3}, int64[1] two = {2}> {
    c = Conv <pads = [0,1,0,1]> (x, W)  p = Add (c, a)  s = Squeeze (p, two)  y = Add (s, w) }"""
BACKWARDS = """agraph (float[3,4] x) => (float[A,B] y) <int64[1] m = {-1}, int64[1] far = {9223372036854775807},
    int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}> {
    a = Slice (x, m, far, n0, m)  y = Slice (a, n0, n2, n1) }"""
ALL_ONES = """agraph (float[1,1,3] x) => (float[A] y) <int64[1] n0 = {0}, int64[0] none = {}> {
    a = Squeeze (x, n0)  y = Squeeze (a, none) }"""
WRAPPED = """agraph (float[N] x) => (float[M] y) <int32[1] z = {{0}}, int32[1] a = {{65536}}, int64[1] one = {{1}},
    int64[1] most = {{9223372036854775807}}, int64[1] zero = {{0}}> {{ {} y = Relu (s) }}"""
PIECES = """agraph (float[3,4] x, int64 k) => (float[A,4] y) <int64 one = {1}, int64[2] t = {1, 4}> {
    s = SplitToSequence <axis = 0, keepdims = 0> (x, one)  a = SequenceAt (s, k)  y = Reshape (a, t) }"""
TILED = """agraph (float[1,P] a, float[1,Q] b) => (float[R,S] y) <int64[2] r = {1, 0}> {
    s = Tile (a, r)  t = Tile (b, r)  y = Concat <axis = 0> (s, t) }"""
MODELS = {
    "a Sum of one operand": ONE_OPERAND,
    "a Squeeze of five axes behind a convolution": RANK_5,
    "a Slice backwards to the front": BACKWARDS,
    "a Squeeze of all axes of 1": ALL_ONES,
    "a number that a Cast cuts": CUT_SLICE,
    "more constants than nodes": UNUSED,
    "a product of int32 that wraps": WRAPPED.format("e = Mul (a, a)  s = Slice (x, z, e)"),
    "a sum of int64 that wraps": WRAPPED.format("e = Add (most, one)  s = Slice (x, zero, e)"),
    "pieces of a sequence without their axis": PIECES,
    "nothing, tiled": TILED,
    "a choice that is decided after the one inside it": DECIDED_LATE,
    "a default among the inputs of a Scan's body": SCAN_WITH_DEFAULT,
}


SIZES = {"N": 5, "L": 6, "A": 2, "Q": 3, "P": 2}


def outputs(path: str, sizes: dict[str, int]) -> list[np.ndarray]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {}
    for number, given in enumerate(session.get_inputs()):
        shape = [sizes.get(size, size) for size in given.shape]
        drawn = np.random.default_rng(number).standard_normal(shape)
        types = {"tensor(bool)": bool, "tensor(int64)": np.int64}
        feeds[given.name] = np.asarray(drawn).astype(types.get(given.type, np.float32))
    return list(session.run(None, feeds))


@pytest.mark.parametrize("name", MODELS)
def test_they_are_converted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(MODELS[name]), "model.onnx")
    fusionc.convert("model.onnx", output="out.onnx", verify=False, log="null")
    onnx.checker.check_model("out.onnx")
    for one, other in zip(outputs("model.onnx", SIZES), outputs("out.onnx", SIZES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_functions_may_have_the_names_of_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = (
        "agraph (int8[2,3] x) => (float[3,2] y) { d = my.DequantizeLinear (x)  y = Transpose (d) }"
    )
    body = "f = Cast <to = 1> (x)  s = Constant <value_float = 0.1> ()  y = Mul (f, s)"
    onnx.save(with_function(graph, "DequantizeLinear", body), "model.onnx")
    assert "equal" in (
        fusionc.convert("model.onnx", output="out.onnx", log="null").verification or ""
    )


def test_a_branch_inside_a_function_keeps_what_the_function_is_called_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body = """c = Constant <value = bool {1}> ()  n = Neg (x)
        y = If (c) <then_branch = t () => (float[m] p) { p = LeakyRelu <alpha: float = @slope> (n) },
            else_branch = e () => (float[m] q) { q = Neg (x) }>"""
    model = with_function(
        "agraph (float[3] x) => (float[3] y) { y = my.F <slope = 0.5> (x) }", "F <slope>", body
    )
    onnx.save(model, "model.onnx")
    report = fusionc.convert("model.onnx", output="out.onnx", verify=False, log="null")
    assert any(
        count.pass_name == "SwitchDeadBranchElimination" and count.effected
        for count in report.patterns
    )
    np.testing.assert_array_equal(outputs("out.onnx", {})[0], outputs("model.onnx", {})[0])


def test_subnormal_weights_before_an_epsilon_that_a_call_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = "agraph (float[1,1,3] x) => (float[1,1,3] y) { y = my.F <eps = 0.5> (x) }"
    body = """w = Constant <value = float[1,1,1] {1e-40}> ()  c = Conv (x, w)  s = Constant <value_floats = [1.0]> ()
        y = InstanceNormalization <epsilon: float = @eps> (c, s, s)"""
    model = with_function(graph, "F <eps>", body)
    onnx.save(model, "model.onnx")
    assert fusionc.convert("model.onnx", output="out.onnx", log="null").verification is not None


def test_a_sequence_in_a_loop_may_hold_other_shapes_than_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime's own optimizers believe in the first shape, so that they are off here, as in the
    verification.
    """
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(CARRIED_SEQUENCE), "model.onnx")
    assert "equal" in (
        fusionc.convert("model.onnx", output="out.onnx", log="null").verification or ""
    )


def test_a_dump_keeps_what_was_made_in_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "c = Constant <value = float {3.0}> ()  y = Sub (x, c)"
    onnx.save(
        with_function("agraph (float[3] x) => (float[3] y) { y = my.F (x) }", "F", body),
        "model.onnx",
    )
    for dump in (None, "dump"):
        fusionc.convert("model.onnx", output="out.onnx", dump_graph=dump, log="null")
        np.testing.assert_array_equal(outputs("out.onnx", {})[0], outputs("model.onnx", {})[0])


def test_what_a_model_has_for_training_is_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = parse("agraph (float[3] x) => (float[3] y) { y = Relu (x) }", opset=11)
    model.training_info.add().algorithm.name = "algorithm"
    onnx.save(model, "model.onnx")
    with pytest.raises(FusioncError, match="it has training information"):
        fusionc.convert("model.onnx", output="out.onnx", target_opset=18, log="null")
