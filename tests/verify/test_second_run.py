"""Elements that the reference does not compute judge nothing, and all others do."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse
from numpy.typing import NDArray

from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.compare import USUAL
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.second_run import SecondRun, held_fast
from fusionc.verify.verification import verify

# onnxruntime lays out 5 more columns for an operand without elements, and leaves them as they are
# in memory.
UNWRITTEN = """agraph (float[N,5] x, float[7,2] c) => (float[A,B] y, float[A,C] z, float[7,2] e) {{
    m = Concat <axis = 1> (c, x) from = Constant <value_ints = [2]> () to = Constant <value_ints = [7]> ()
    at = Constant <value_ints = [1]> () z = Slice (m, from, to, at) f = Constant <value_float = {}> ()
    y = Mul (m, f) e = {} (c) }}"""
GIVEN = UNWRITTEN.format("1.0", "Exp")
FEEDS = {"x": np.zeros((0, 5), np.float32), "c": np.full((7, 2), -1, np.float32)}


@closes_runners
def elements_of(path: Path) -> tuple[list[NDArray[Any]], list[NDArray[np.float64] | None]]:
    onnx.save(parse(GIVEN), path)
    runner = Runner(path)
    outputs = runner.run(FEEDS)
    again = SecondRun(path, runner)
    reaches = again.reaches(FEEDS, outputs, [USUAL] * 3)
    assert again.reaches(FEEDS, outputs, [USUAL] * 3) is reaches
    return outputs, reaches


def test_unwritten_elements_are_known(tmp_path: Path) -> None:
    outputs, reaches = elements_of(tmp_path / "m.onnx")
    of_y, of_z, of_e = reaches
    assert of_y is not None and np.isinf(of_y[:, 2:]).all() and not of_y[:, :2].any()
    assert of_z is not None and np.isinf(of_z).all() and of_e is None
    y, z, e = held_fast(outputs, [value + 1 for value in outputs], reaches)
    assert np.array_equal(y[:, :2], outputs[0][:, :2] + 1) and np.array_equal(e, outputs[2] + 1)
    assert np.array_equal(z, outputs[1], equal_nan=True) and np.array_equal(
        y[:, 2:], outputs[0][:, 2:], equal_nan=True
    )


@closes_runners
def judged(tmp_path: Path, candidate: str) -> tuple[str, Judge]:
    """What comes of a sample on which the candidate finds other numbers in memory."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, text in zip(paths, (GIVEN, candidate), strict=True):
        onnx.save(parse(text), path)
    ours, theirs = map(Runner, paths)
    found = [np.array(value) for value in theirs.run(FEEDS)]
    found[0][:, 2:] = found[1][:] = -77
    judge = Judge(paths[0], ours)
    outputs = [np.array(value) for value in ours.run(FEEDS)]
    # as if that had lain there: what does may be so large that it hides all else
    outputs[0][:, 2:] = outputs[1][:] = 5
    outcome, _ = judge.outcome(Sample(label="empty", feeds=FEEDS, outputs=outputs), found)
    return outcome, judge


def test_what_nobody_writes_is_not_judged_and_said(tmp_path: Path) -> None:
    outcome, judge = judged(tmp_path, GIVEN)
    why = "the reference gives another value in each run"
    assert outcome == "same"
    assert (
        judge.tally.summary(())
        == f"equal in 1 run; of y 35 of 49 elements are not judged: {why}; z is not judged: {why}"
    )


@pytest.mark.parametrize(
    "wrong", [("1.0", "Relu"), ("-1.0", "Exp")], ids=["another output", "other elements"]
)
def test_all_else_is_judged(wrong: tuple[str, str], tmp_path: Path) -> None:
    assert judged(tmp_path, UNWRITTEN.format(*wrong))[0] == "different"


def test_where_nothing_else_is_left_nothing_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output that is another one in each run."""
    path = tmp_path / "m.onnx"
    onnx.save(parse("agraph (float[N,5] x) => (float[N,5] y) { y = Sigmoid (x) }"), path)
    run = Runner.run
    numbers = count()
    monkeypatch.setattr(
        Runner,
        "run",
        lambda self, feeds: [v + 100 * (-2.0) ** next(numbers) for v in run(self, feeds)],
    )
    found = verify(path, path, nonfinite=False)
    assert found.status == "impossible" and found.summary.startswith(
        "nothing is judged: y is not judged"
    ), found


def test_what_nobody_writes_of_small_outputs_is_known(tmp_path: Path) -> None:
    """In an arena they find in each session the same values that were there before."""
    text = """agraph (float[N,2] x, int64[K] k) => (float[A,B] y) {
        e = Exp (x) r = Reshape (e, k) p, q = Split <axis = 1, num_outputs = 2> (r) y = Concat <axis = -1> (p, q) }"""
    feeds = {"x": np.ones((1, 2), np.float32), "k": np.array([2, 1, 1])}
    onnx.save(parse(text, 18), tmp_path / "m.onnx")
    runner = Runner(tmp_path / "m.onnx")
    (reach,) = SecondRun(tmp_path / "m.onnx", runner).reaches(feeds, runner.run(feeds), [USUAL])
    assert reach is not None and np.isinf(reach).any()
