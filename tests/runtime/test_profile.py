"""Times by operator: they sum to the run, and what runs inside of an operator is not counted
twice.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from fusionc.runtime import profile as profiling
from fusionc.runtime.process import current
from fusionc.runtime.profile import profile
from fusionc.runtime.profile_events import summary_of
from fusionc.runtime.run_errors import Overdue, RunError

SAMPLES = Path(__file__).parents[2] / "sample_models"


def run(start: int, duration: int) -> dict[str, object]:
    return {"cat": "Session", "name": "model_run", "ts": start, "dur": duration, "args": {}}


def node(operator: str, start: int, duration: int) -> dict[str, object]:
    return {
        "cat": "Node",
        "name": "n_kernel_time",
        "ts": start,
        "dur": duration,
        "args": {"op_name": operator},
    }


def test_a_loop_has_its_own_time_and_the_first_run_does_not_count(tmp_path: Path) -> None:
    events = [
        run(0, 500), node("Add", 10, 400),
        run(1000, 100), node("Add", 1001, 20), node("Loop", 1030, 60), node("Mul", 1035, 10), node("Mul", 1050, 30),
        run(2000, 100), node("Add", 2001, 40), node("Loop", 2050, 40), node("Mul", 2050, 10), node("Mul", 2060, 30),
    ]  # fmt: skip
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(events))
    runs, seconds, between, operators = summary_of(file)
    assert (runs, seconds, between) == (1, pytest.approx(100e-6), pytest.approx(20e-6))
    assert operators == {
        "Add": (1, pytest.approx(20e-6)), "Loop": (1, pytest.approx(20e-6)), "Mul": (2, pytest.approx(40e-6)),
    }  # fmt: skip


def test_runs_that_something_held_up_do_not_count(tmp_path: Path) -> None:
    times = [(0, 9), (100, 90), (200, 10), (300, 80), (400, 20)]
    events = [
        event for start, time in times for event in (run(start, time), node("Add", start, time - 5))
    ]
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(events))
    runs, seconds, between, operators = summary_of(file)
    assert (runs, seconds, between) == (2, pytest.approx(15e-6), pytest.approx(5e-6))
    assert operators == {"Add": (1, pytest.approx(10e-6))}


@pytest.mark.parametrize("sample", ["control_flow", "conv_bn"])
def test_operators_and_what_is_between_them_sum_to_the_run(sample: str) -> None:
    feeds = {
        "control_flow": {"x": np.ones((1, 3, 8, 8), np.float32), "flag": np.array(True)},
        "conv_bn": {"image": np.ones((1, 3, 16, 16), np.float32)},
    }[sample]
    found = profile(SAMPLES / f"{sample}.onnx", feeds, 20)
    inside = sum(seconds for _, seconds in found.operators.values())
    assert inside + found.between == pytest.approx(found.seconds, rel=0.05)
    assert found.runs > 2 and found.seconds > 0 <= found.between


def test_a_loop_of_many_turns_has_a_large_profile(tmp_path: Path) -> None:
    text = """g (float[1] x) => (float[1] y) <int64 turns = {20000}, bool on = {1}> { y = Loop (turns, on, x) <body =
        turn (int64 k, bool c, float[1] a) => (bool d, float[1] b) { d = Identity (c) b = Abs (a) }> }"""
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'),
        tmp_path / "m.onnx",
    )
    found = profile(tmp_path / "m.onnx", {"x": np.ones(1, np.float32)}, 4, seconds=0.001)
    assert found.operators["Abs"][0] == 20000


def test_a_model_that_does_not_run_is_an_error() -> None:
    with pytest.raises(RunError):
        profile(SAMPLES / "conv_bn.onnx", {}, 20)


def test_one_that_takes_too_long_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for most in ("_MOST_RUNS", "_MOST_EVENTS"):
        monkeypatch.setattr(profiling, most, 10**9)
    if (process := current()) is not None:
        process.end()  # so that the next one has this folder for its files
    feeds = {"image": np.ones((1, 3, 16, 16), np.float32)}
    with pytest.raises(Overdue):
        profile(SAMPLES / "conv_bn.onnx", feeds, 1, seconds=60.0, most=3.0)
    assert not list(tmp_path.rglob("*profile*"))
