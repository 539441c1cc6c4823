"""A few of the models that benchmarks/fuzz.py glues together; run that for thousands."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from harness import assert_same_numbers, optimize, parse

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz
import fuzz_models

from fusionc.errors import FusioncError
from fusionc.model.graph import Edge
from fusionc.rewrite import Match, Pass, Tape
from fusionc.verify import verify

RUNS = 48
CHUNK = 12
cached_snippets = cache(fuzz.snippets)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_glued_models_keep_their_numbers(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))  # which fuzz sets, too
    rewrites = 0
    for number in range(first, first + CHUNK):
        plan = fuzz.Plan(0, number, cached_snippets())
        try:
            _ = plan.raised
        except FusioncError:
            plan.target_opset = None
        assert plan.examine() is None, f"python benchmarks/fuzz.py --seed 0 --only {number}"
        rewrites += sum(plan.counts.values())
    assert rewrites > CHUNK


FOUND = {
    "a type that is forgotten when a branch becomes a constant": """
        agraph (bool c, bool d, float[N,3,4] x) => (float[N,1,4] y) <float[3] k, int64[1] ax = {1}> {
            s = If (c) <
                then_branch = t () => (float[3] p) { p = If (d) <
                    then_branch = tt () => (float[3] pp) { pp = Neg (k) },
                    else_branch = te () => (float[3] pq) { pq = Constant <value = float[3] {1, 2, 3}> () }> },
                else_branch = e () => (float[3] q) { q = If (d) <
                    then_branch = et () => (float[3] qp) { qp = Neg (k) },
                    else_branch = ee () => (float[3] qq) { qq = Constant <value = float[3] {1, 2, 3}> () }> }>
            m = ReduceMean <keepdims = 0> (s)
            a = Add (x, m)
            y = ReduceMax (a, ax)
        }""",
    "the type of an output of an operator that onnx does not know": """
        agraph (float[N,3] x, float[N,4] z) => (float[N,5] s, float[N,4] y) <float[3,5] W, float[5] b> {
            p = Gemm (x, W, b) s = Softplus (p) m = ReduceMean <keepdims = 0> (s) y = Add (z, m)
        }""",
}


@pytest.mark.parametrize("graph", FOUND.values(), ids=FOUND)
def test_what_was_found(graph: str) -> None:
    model = parse(graph)
    result, _ = optimize(model, fuzz.PASSES)
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "rounding", {}, edge_values=False)


def test_an_input_without_elements_is_verified(tmp_path: Path) -> None:
    model = parse(
        "agraph (float[M,0] x, float[0,5] w) => (float[M,5] y) { p = MatMul (x, w) y = Relu (p) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert verify(tmp_path / "model.onnx", tmp_path / "model.onnx").status == "equal"


def test_the_same_number_is_the_same_model() -> None:
    stock = cached_snippets()
    for number in range(3):
        assert fuzz.Plan(7, number, stock).model == fuzz.Plan(7, number, stock).model


def test_a_wrong_rewrite_is_found_named_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer is no use if it finds nothing: let one pass be wrong."""
    guilty = next(p for p in fuzz.PASSES if p.name == "ConvBatchnormFusionPass")
    right = type(guilty).rewrite

    def wrong(self: Pass, m: Match, new: Tape) -> Edge:
        result = right(self, m, new)
        return new.Mul(result, new.const(fuzz.np.float32(1.01)))

    monkeypatch.setattr(type(guilty), "rewrite", wrong)
    stock = {guilty.name: cached_snippets()[guilty.name]}
    for number in range(20):
        plan = fuzz.Plan(0, number, stock)
        if guilty in plan.passes and plan.target_opset is None and not plan.through_files:
            if plan.examine() is None:
                continue
            assert plan.guilty().startswith(guilty.name)
            if len(plan.smaller().graph.node) <= 3:
                return
    raise AssertionError("not found, or not made small, in 20 runs")


GLUED = (None, onnx.ModelProto())
DEATHS = {
    "the original": (1, GLUED, False),
    "the result": (0, GLUED, True),
    "what glues": (0, None, False),
}


@pytest.mark.parametrize(("code", "glued", "is_finding"), DEATHS.values(), ids=DEATHS)
def test_a_death_that_the_original_alone_causes_is_no_finding(
    code: int, glued: object, is_finding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "run_original", lambda plan: os._exit(code))
    counts = fuzz.death_of(lambda number: SimpleNamespace(), 7, glued)
    assert (counts["findings"], counts["died"]) == (is_finding, not is_finding)


def test_what_the_original_refuses_in_a_second_run_is_no_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sizes that contradict the declaration let onnxruntime re-use a buffer of another size."""

    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("Shape mismatch attempting to re-use buffer")

    monkeypatch.setattr(fuzz, "session", refused)
    plan = object.__new__(fuzz.Plan)
    assert plan.is_unstable(onnx.ModelProto(), {}, [])
    assert not plan.is_noise(onnx.ModelProto(), {}, [], [], {"y": 1.0})


@pytest.mark.parametrize("opset", [9, 13, 22])
def test_the_noise_of_terms_that_cancel_is_seen(opset: int) -> None:
    """The root of such a sum is all noise, or NaN."""
    graph = """agraph (uint8[8] x) => (float[1] y) <
        float[8] signs = {1, -1, 1, -1, 1, -1, 1, -1}> {
            d = Cast <to = 1> (x) m = Mul (d, signs) s = ReduceSum (m) y = Sqrt (s) }"""
    model = parse(graph, opset)
    feeds = {"x": fuzz.np.full(8, 3, fuzz.np.uint8)}
    plan = object.__new__(fuzz.Plan)
    noise = plan.noise(model, feeds, fuzz.session(model).run(None, feeds))
    assert noise["y"].largest > 1e-4 and noise["y"].is_open.all()


@pytest.mark.parametrize(("training", "is_usable"), [("{1}", False), ("{0}", True)])
def test_a_model_that_drops_elements_at_random_is_not_used(training: str, is_usable: bool) -> None:
    """A small ratio drops nothing in most runs, and then something in one of them."""
    graph = f"""agraph (float[2,3] x) => (float[2,3] y) <float r = {{0.01}}, bool t = {training}> {{
        y = Dropout (x, r, t) }}"""
    assert fuzz_models._usable(parse(graph, 18)) is is_usable


def test_noise_of_one_element_explains_no_infinity_of_another() -> None:
    model = parse(
        """agraph (uint8[8] x) => (float[2] y) <float[2,8] signs = {
        1, -1, 1, -1, 1, -1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1}, float[1] one = {1}> {
            d = Cast <to = 1> (x) m = Mul (d, signs) s = ReduceSum <axes = [1], keepdims = 0> (m)
            y = Div (one, s) }""",
        11,
    )
    feeds = {"x": fuzz.np.full(8, 3, fuzz.np.uint8)}
    want = fuzz.session(model).run(None, feeds)
    plan = object.__new__(fuzz.Plan)
    for value in (-1e6, float("-inf")):
        got = [fuzz.np.float32([value, want[0][1]])]
        assert plan.is_noise(model, feeds, want, got, {"y": float("inf")})
    got = [fuzz.np.float32([want[0][0], float("inf")])]
    assert not plan.is_noise(model, feeds, want, got, {"y": float("inf")})
