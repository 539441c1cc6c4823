"""Models that end or block onnxruntime: verification says so, and goes on where it can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dangerous import ENDLESS, HUNGRY, OVERFLOW, PLAIN, SPLIT, saved

from fusionc.api import convert
from fusionc.errors import FusioncError, VerificationError
from fusionc.runtime.process import Process, step_limit
from fusionc.runtime.run_errors import RunError
from fusionc.verify import verify


def count_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what onnxruntime's process is asked for from now on."""
    asked: list[str] = []
    ask = Process.ask

    def count(self: Process, name: str, arguments: Sequence[Any], seconds: float | None) -> Any:
        asked.append(name)
        return ask(self, name, arguments, seconds)

    monkeypatch.setattr(Process, "ask", count)
    return asked


CRASHES = {"a dropped output": (SPLIT, "SIGSEGV"), "the lowest number by -1": (OVERFLOW, "SIGFPE")}


@pytest.mark.parametrize(("text", "how"), CRASHES.values(), ids=CRASHES)
def test_a_reference_that_crashes_is_not_comparable(tmp_path: Path, text: str, how: str) -> None:
    found = verify(saved(text, tmp_path / "a.onnx"), saved(PLAIN, tmp_path / "b.onnx"))
    assert found.status == "impossible"
    assert f"onnxruntime cannot run {tmp_path}/a.onnx: it ends the process ({how})" in found.summary


@pytest.mark.parametrize(("text", "how"), CRASHES.values(), ids=CRASHES)
def test_a_candidate_that_crashes_is_different(tmp_path: Path, text: str, how: str) -> None:
    found = verify(saved(PLAIN, tmp_path / "a.onnx"), saved(text, tmp_path / "b.onnx"))
    assert found.status == "different"
    assert (
        f"seed 0: the reference runs, but the candidate does not: it ends the process ({how})"
        in found.summary
    )


def test_a_reference_that_does_not_end_is_not_comparable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_requests(monkeypatch)
    with step_limit(0.5):
        found = verify(saved(ENDLESS, tmp_path / "a.onnx"), saved(PLAIN, tmp_path / "b.onnx"))
    assert found.status == "impossible" and "it takes longer than 0.5 s" in found.summary
    assert asked.count("run") <= 1  # not one for each proposal


def test_a_candidate_that_does_not_end_is_different(tmp_path: Path) -> None:
    path = saved(PLAIN, tmp_path / "a.onnx")
    begin = time.monotonic()
    assert verify(path, path).status == "equal"
    # of a step; the reference takes many in that time, however slow it is
    limit = max(0.5, time.monotonic() - begin)
    with step_limit(limit):
        found = verify(path, saved(ENDLESS, tmp_path / "b.onnx"))
    assert found.status == "different" and f"it takes longer than {limit:g} s" in found.summary


def test_hunger_of_the_reference_is_not_comparable(tmp_path: Path) -> None:
    found = verify(saved(HUNGRY, tmp_path / "a.onnx"), saved(PLAIN, tmp_path / "b.onnx"))
    assert found.status == "impossible" and "allocate" in found.summary


def test_hunger_of_the_candidate_is_an_error_and_no_difference(tmp_path: Path) -> None:
    with pytest.raises(FusioncError, match="not enough memory") as caught:
        verify(saved(PLAIN, tmp_path / "a.onnx"), saved(HUNGRY, tmp_path / "b.onnx"))
    assert not isinstance(caught.value, VerificationError)


SOMETIMES = """agraph (int64[2] x) => (int64[2] y) <int64[2] one = {1, 1}, int64[2] low = {-9223372036854775807, 5}> {
    zero = Sub(x, x)
    both = Equal(x, zero)
    all = Cast <to = 7> (both)
    lowest = Sub(low, all)
    minus = Neg(one)
    d = Div(lowest, minus)
    y = Add(d, x)
}"""


def test_inputs_on_which_the_reference_crashes_are_left_out(tmp_path: Path) -> None:
    path = saved(SOMETIMES, tmp_path / "a.onnx")
    found = verify(path, path)
    assert found.status == "equal"
    assert "left out, on which the reference fails: it ends the process (SIGFPE)" in found.summary


def test_a_session_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_requests(monkeypatch)
    path = saved(PLAIN, tmp_path / "a.onnx")
    assert verify(path, path).status == "equal"
    assert asked.count("open") == asked.count("close") == 3 and asked.count("run") > 6


CUSTOM = """
import fusionc
import numpy as np

def search(x, c):
    return fusionc.op.Add(c, x)

def replacement(x, c):
    lowest = np.array([-9223372036854775808, 5])
    return fusionc.op.Sub(x, fusionc.op.Div(lowest, fusionc.op.Sub(fusionc.op.Sub(x, x), 1)))

fusionc.register_replacement(search, replacement, name="CrashingPass")
"""


def test_the_rewrite_that_makes_onnxruntime_crash_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CUSTOM)
    with pytest.raises(VerificationError, match="SIGFPE") as caught:
        convert(saved(PLAIN, tmp_path / "a.onnx"), output="out.onnx", custom_passes=["own.py"])
    assert "CrashingPass" in caught.value.where
    assert not Path("out.onnx").exists()


def test_a_crash_while_folding_refuses_the_fold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = SPLIT.replace("y = Add(a, x)", "e = Neg(d) f = Add(e, x) g = Sub(f, a) y = Abs(g)")
    text = more.replace("int64[2] s", "int64[2] d = {1, 2}, int64[2] s")
    crashes = count_crashes(monkeypatch)
    report = convert(saved(text, tmp_path / "a.onnx"), output="out.onnx", verify=False)
    (count,) = [count for count in report.patterns if count.pattern == "ConstantFolding"]
    assert count.effected == 1 and count.refused == {"onnxruntime crashes when it computes it": 1}
    folding = 3  # of all nodes together, and twice of the one; not again in the next round
    # twice of the result and of the model, of which onnxruntime itself folds these nodes
    loading = 4
    assert len(crashes) == folding + loading


def count_crashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    why = Process._what_ended_it

    def count(self: Process) -> RunError:
        error = why(self)
        found.append(str(error))
        return error

    monkeypatch.setattr(Process, "_what_ended_it", count)
    return found


def test_two_threads_convert_at_once(tmp_path: Path) -> None:
    def work(text: str, number: int) -> str:
        path = saved(text, tmp_path / f"{number}.onnx")
        with step_limit(10):
            return convert(
                path, output=tmp_path / f"out{number}.onnx", export_compile_stat=0
            ).verification

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, (SPLIT, PLAIN, PLAIN, OVERFLOW, PLAIN, PLAIN), range(6)))
    assert ["SIGSEGV" in found[0], "SIGFPE" in found[3]] == [True, True]
    assert {found[number] for number in (1, 2, 4, 5)} == {"equal in 6 runs"}
    assert len(list(tmp_path.glob("out*.onnx"))) == 6
