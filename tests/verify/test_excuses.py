"""Rounding excuses elements, never a region."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import effected, optimize, parse
from numpy.typing import NDArray
from onnx import numpy_helper

from fusionc.passes.signal import stft_to_conv
from fusionc.passes.signal.stft_to_conv import StftToConvPass
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.compare import USUAL
from fusionc.verify.excuses import Excused, Excuses, excused_elements, sorted_outputs
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.noise import ONE_IN
from fusionc.verify.verification import verify

PHASE = """agraph (float[B,200,1] x) => (float[B,37,11] y)
    <int64 step = {{5}}, int64 n = {{20}}, int64 one = {{1}}, int64 none = {{0}}, float zero = {{0}},
     float pi = {{3.1415927}}> {{
    s = STFT (x, step, , n) re = Gather <axis = 3> (s, none) im = Gather <axis = 3> (s, one)
    g = Greater (im, zero) q = Div (im, re) a = Atan (q) u = Add (a, pi) d = Sub (a, pi) o = Where (g, u, d)
    l = Less (re, zero) p = Where (l, o, a) {} }}"""


class Planted(StftToConvPass):
    """The pass as it was when it did not look at what follows."""

    numerics = "bitwise"


@pytest.mark.parametrize("behind", ["y = Identity (p)", "y = CumSum (p, one)"])
def test_a_phase_of_parts_that_are_noise_is_no_matter_of_rounding(
    behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first and the last frequency the imaginary part is noise, or 0: the angle turns by 2π
    in all frames.
    """
    monkeypatch.setattr(stft_to_conv, "require_continuous", lambda value: None)
    model = parse(PHASE.format(behind), 17)
    result, counts = optimize(model, [Planted()])
    assert effected(counts) == 1
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (model, result), strict=True):
        onnx.save(proto, path)
    found = verify(*paths, nonfinite=False)
    assert found.status == "different" and "single elements" in found.summary, found.summary
    assert verify(paths[0], paths[0]).status == "equal"


FLOORED = """agraph (float[N,{columns}] x) => (float[N,{columns}] y) {{
    axis = Constant <value_ints = [1]> () m = ReduceMax (x, axis) c = Constant <value_float = 49.0> () {steps}
    y = Floor (q) }}"""


@pytest.mark.parametrize(("columns", "status"), [(64, "equal"), (8, "different")])
def test_so_many_elements_on_a_step_are_said_and_more_are_a_difference(
    columns: int, status: str, tmp_path: Path
) -> None:
    """The largest number of each row lies on a step: one of 64, or of 8, elements."""
    paths = [tmp_path / "reference.onnx", tmp_path / "candidate.onnx"]
    steps = "s = Div (m, c) q = Div (x, s)", "r = Div (c, m) q = Mul (x, r)"
    for path, text in zip(paths, steps, strict=True):
        onnx.save(parse(FLOORED.format(columns=columns, steps=text)), path)
    x = np.random.default_rng(3).normal(size=(40, columns)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found = verify(*paths, inputs=tmp_path / "x.npz", nonfinite=False)
    assert found.status == status, found.summary
    if status == "equal":
        assert "elements, which move by up to 1: " in found.summary, found.summary


@closes_runners
def outcome_of(tmp_path: Path, result: str, kind: str) -> str:
    """Of models that put two numbers in another order, which differ in the last place; or what
    comes of a comparison of these.
    """
    text = f"""agraph (float[N,8] x) => ({kind}[N,M] y) <float[8] w> {{
        m = Mul (x, w) k = Constant <value_ints = [8]> ()
        f = Constant <value_ints = [0]> () t = Constant <value_ints = [1]> () a = Constant <value_ints = [1]> ()
        l = Slice (m, f, t, a) {result} }}"""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, factor in zip(paths, (1, 1 + 2.0**-22), strict=True):
        model = parse(text)
        w = np.float32([factor, *[1] * 7])
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
        onnx.save(model, path)
    x = np.float32(
        [[1 / 3, np.nextafter(np.float32(1 / 3), np.float32(1)), 4.1, 5.1, 6.1, 7.1, 8.1, 9.1]] * 50
    )
    ours, theirs = map(Runner, paths)
    sample = Sample(label="x", feeds={"x": x}, outputs=ours.run({"x": x}))
    return Judge(paths[0], ours).outcome(sample, theirs.run({"x": x}))[0]


def test_a_region_of_what_is_put_in_order_says_nothing(tmp_path: Path) -> None:
    """One tie may change the places of all that follow: such a sample is left out, and not called
    the same.
    """
    assert outcome_of(tmp_path, "v, y = TopK (m, k)", "int64") == "unstable"
    assert outcome_of(tmp_path, "y = GreaterOrEqual (l, m)", "bool") == "different"


def test_the_share_is_of_all_that_was_compared() -> None:
    excuses = Excuses()
    assert excuses.has_room("y", Excused(1, 8, 1, 1.0)), "one element of a small output"
    assert not excuses.has_room("y", Excused(2, 8, 2, 1.0))
    excuses.take("y", Excused(1, 8, 1, 1.0))
    assert not excuses.has_room("y", Excused(1, 8, 1, 1.0)), "not one in each sample"
    excuses.take("y", Excused(0, ONE_IN, 0, 0.0))
    assert excuses.has_room("y", Excused(1, 8, 1, 1.0)) and excuses.has_room(
        "z", Excused(1, 8, 1, 1.0)
    )
    assert excuses.has_room("y", Excused(7, 8, 0, 1.0)), (
        "what is near is amplified rounding, judged elsewhere"
    )


def test_of_a_grid_one_element_of_each_sample_may_be_on_the_next_step() -> None:
    steps = Excuses(500, one_each=True)
    for _ in range(6):
        assert steps.has_room("q", Excused(1, 20, 1, 1.0)) and not steps.has_room(
            "q", Excused(2, 20, 2, 1.0)
        )
        steps.take("q", Excused(1, 20, 1, 1.0))
    for one in (Excused(1, 20, 1, 1.0), *[Excused(1, 4, 1, 1.0)] * 2):
        is_first = steps.has_room("r", one)
        steps.take("r", one)
    assert not is_first, "of a tiny one it is one in all"
    assert steps.has_room("q", Excused(7, 3000, 7, 1.0)) and not steps.has_room(
        "q", Excused(9, 3000, 9, 1.0)
    )


def test_what_was_excused_is_said() -> None:
    excuses = Excuses()
    excuses.add({"y": Excused(0, 8, 0, 0.0)})
    assert excuses.samples == 0
    excuses.add({"y": Excused(1200, 30_000, 1200, 6.28), "z": Excused(0, 8, 0, 0.0)})
    excuses.add({"y": Excused(34, 30_000, 3, 0.5)})
    assert excuses.samples == 2
    assert str(excuses) == "1,234 of 60,008 elements, which move by up to 6.3"


def array(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_what_the_model_leaves_open_is_not_far_off() -> None:
    """A product that overflows in one order only, say; and what moves by no more than the widest
    tolerance.
    """
    ours = array(100, 5, 1, 7, 2)
    theirs = array(100, np.nan, 8, 7.5, 2)
    order = np.array([0, np.inf, 0, 0, 0])
    found = excused_elements(ours, theirs, order, None, USUAL)
    assert found == Excused(3, 5, 1, 7.0)
    assert excused_elements(ours, theirs, None, None, USUAL).far == 2
    assert excused_elements([ours], [theirs], None, None, USUAL) == Excused(0, 1, 0, 0.0)
    assert excused_elements(ours, theirs[:2], None, None, USUAL).far == 5
    assert excused_elements(ours, theirs[:2], np.full(5, np.inf), None, USUAL).far == 0


def test_what_is_put_in_order() -> None:
    """One tie changes the places of all that follow."""
    model = parse("""agraph (float[N,9] x) => (float[N,K] best, float[N,9] y, float[N,K] z) {
        k = Constant <value_ints = [3]> () v, i = TopK (x, k) best = Identity (v) y = Neg (x)
        z = GatherElements <axis = 1> (y, i) }""")
    assert sorted_outputs(model) == {"best", "z"}


def planted(path: Path, wrong: NDArray[np.float32]) -> Path:
    """A model whose first channel amplifies rounding, and what is added to its output."""
    model = parse("""agraph (float[N,4,64] x) => (float[N,4,64] y) {
        a = Add (x, up) b = Sub (a, up) z = Mul (b, g) y = Add (z, wrong) }""")
    up = np.zeros((4, 1), np.float32)
    up[0] = 4567.7
    weights = {"up": up, "g": np.full(1, 0.7, np.float32), "wrong": wrong}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    "where",
    [(0, slice(0, 26)), (slice(1, 3), slice(0, 13)), (3, slice(0, 64, 3)), (1, slice(7, 33))],
)
def test_a_region_beside_what_amplifies_is_a_difference(
    where: tuple[int | slice, slice], tmp_path: Path
) -> None:
    """A tenth of the output, ten times as far off as the tolerance, also where half of a channel is
    right.
    """
    wrong = np.zeros((4, 64), np.float32)
    right = planted(tmp_path / "a.onnx", wrong)
    wrong[where] = 0.03
    assert verify(right, planted(tmp_path / "b.onnx", wrong), nonfinite=False).status == "different"


DECISION = """agraph (float[2] x, float[90] z) => (float[100] y) <float one = {{1}}, float large = {{1e9}}, float c = {{0.7}},
    float d = {{1.1}}, float e = {{{product}}}, int64[2] wide = {{5, 2}}, int64[1] flat = {{-1}}> {{
    {logits} a = Mul (l, large) {weights} b = Expand (s, wide) f = Reshape (b, flat) t = Tanh (z)
    y = Concat <axis = 0> (f, t) }}"""


@closes_runners
def decision_of(tmp_path: Path, weights: str) -> str:
    """Of models that multiply two numbers, which are nearly the same, in another order, and let a
    softmax decide between them: ten of a hundred elements show it.
    """
    c = np.float32(0.7)
    d = np.float32(1.1)
    bodies = ("p = Mul (x, c) l = Mul (p, d)", "s = Softmax (a)"), ("l = Mul (x, e)", weights)
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, (logits, last) in zip(paths, bodies, strict=True):
        text = DECISION.format(product=repr(float(c * d)), logits=logits, weights=last)
        onnx.save(parse(text), path)
    first = np.random.default_rng(0).uniform(1.6, 1.9, 5000).astype(np.float32)
    second = np.nextafter(first, np.float32(2))
    decided = [
        np.sign(one(first) - one(second)) for one in (lambda v: v * c * d, lambda v: v * (c * d))
    ]
    at = int(np.argmax(decided[0] != decided[1]))
    assert decided[0][at] != decided[1][at]
    feeds = {"x": np.array([first[at], second[at]]), "z": np.linspace(-1, 1, 90, dtype=np.float32)}
    ours, theirs = map(Runner, paths)
    sample = Sample(label="x", feeds=feeds, outputs=ours.run(feeds))
    return Judge(paths[0], ours).outcome(sample, theirs.run(feeds))[0]


def test_one_decision_that_shows_in_many_elements_says_nothing(tmp_path: Path) -> None:
    """The reference, moved by rounding, gives all of the candidate's output."""
    assert decision_of(tmp_path, "s = Softmax (a)") == "unstable"
    assert decision_of(tmp_path, "r = Softmax (a) s = Sub (one, r)") == "unstable"
    assert decision_of(tmp_path, "r = Softmax (a) s = Mul (r, c)") == "different"
