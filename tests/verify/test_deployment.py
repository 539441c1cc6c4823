"""What onnxruntime's own optimizers make of a model is told from what a rewrite has made of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from planted_runs import plant_runs

import fusionc
from fusionc.runtime.optimizers import LEVELS, OPTIMIZERS
from fusionc.runtime.run_errors import Crashed, OutOfMemory, Overdue, RunError
from fusionc.runtime.runner import Runner
from fusionc.verify import Verification, verify
from fusionc.verify.model_file import ModelFile

ROOT = Path(__file__).parents[2]
INTEGERS = (
    "agraph (int64[4] x, int64[4] z) => (int64[4] y) <int64 one = {{1}}> {{ c = Max (x, one) "
    "a = Div (one, c) {} }}"
)
QUOTIENT = INTEGERS.format("y = Mul (a, z)")
PLAIN = "agraph (float[N,3] x) => (float[N,3] y) { y = Neg (x) }"
SAME_WITHOUT_THE_PATTERN = INTEGERS.format("n = Neg (a) p = Neg (z) y = Mul (n, p)")
# Faults of onnxruntime 1.31 and 1.32: each is right with all optimizers off, and what one of them
# makes of it is wrong.
FAULTS = {
    # (1 / x) * z is z / x, but not of integers.
    "a product with a quotient of integers": (QUOTIENT, {"DivMulFusion"}),
    "a product with a quotient of another rank": (
        "agraph (float[4] x, float[4] z) => (float[1,1,4] y) <float[1,1,1] one = {1}> "
        "{ a = Div (one, x) y = Mul (a, z) }",
        {"DivMulFusion"},
    ),
    # microsoft/onnxruntime#32413: the optimized graph is invalid; either of two optimizers may be
    # off.
    "a product with a quotient of constants": (
        "agraph (float[4] x) => (float[4] y) <float zero = {0}, float one = {1}> "
        "{ m = Identity (x) f = Div (one, one) w = Mul (m, f) y = Add (w, zero) }",
        {"EliminateIdentity"},
    ),
}


def judged(folder: Path, reference: str, candidate: str, **options: object) -> Verification:
    onnx.save(parse(reference), folder / "a.onnx")
    onnx.save(parse(candidate), folder / "b.onnx")
    return verify(folder / "a.onnx", folder / "b.onnx", **options)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_both_models_suffer_from_is_told(tmp_path: Path, name: str) -> None:
    text, optimizers = FAULTS[name]
    found = judged(tmp_path, text, text)
    (fault,) = found.optimizer_faults
    assert found.status == "equal" and fault.is_in_reference and set(fault.optimizers) == optimizers
    assert "what both models compute" in found.summary and fault.setting in found.summary


@pytest.mark.parametrize("name", FAULTS)
def test_the_setting_that_is_told_avoids_it(tmp_path: Path, name: str) -> None:
    (fault,) = judged(tmp_path, FAULTS[name][0], FAULTS[name][0]).optimizer_faults
    options = onnxruntime.SessionOptions()
    entry = re.fullmatch(r'add_session_config_entry\("(.*)", "(.*)"\)', fault.setting)
    assert entry is not None
    options.add_session_config_entry(entry[1], entry[2])
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx", options)
    types = {
        port.name: np.int64 if port.type == "tensor(int64)" else np.float32
        for port in session.get_inputs()
    }
    feeds = {name: np.arange(2, 6).astype(dtype) for name, dtype in types.items()}
    for ours, theirs in zip(
        session.run(None, feeds), Runner(tmp_path / "a.onnx").run(feeds), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", FAULTS)
def test_without_the_optimizers_that_are_off_all_the_time(tmp_path: Path, name: str) -> None:
    text, optimizers = FAULTS[name]
    found = judged(tmp_path, text, text, optimizers_off=sorted(optimizers))
    assert found.status == "equal" and not found.optimizer_faults
    (fault,) = judged(tmp_path, text, text, optimizers_off=["GeluFusionL1"]).optimizer_faults
    assert set(fault.optimizers) == optimizers and fault.is_in_reference


def test_optimizers_that_are_off_are_off_for_the_candidate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong by that is a difference, though the reference has the same file."""
    plant_runs(
        monkeypatch, lambda _, __, off, outputs: [y + ("ReshapeFusion" in off) for y in outputs]
    )
    found = judged(tmp_path, PLAIN, PLAIN, optimizers_off=["ReshapeFusion"])
    assert found.status == "different" and not found.optimizer_faults[0].is_in_reference


def test_a_fault_that_only_the_result_suffers_from_is_a_difference(tmp_path: Path) -> None:
    found = judged(tmp_path, SAME_WITHOUT_THE_PATTERN, QUOTIENT)
    assert found.status == "different" and len(found.differences) == 1
    assert found.summary.startswith(
        "different: at level all onnxruntime's own optimization, DivMulFusion, changes what"
    )
    assert "what the result computes, but not" in found.summary
    assert judged(tmp_path, QUOTIENT, SAME_WITHOUT_THE_PATTERN).summary.startswith("equal")
    assert judged(
        tmp_path, SAME_WITHOUT_THE_PATTERN, QUOTIENT, levels=["disabled"]
    ).summary.startswith("equal")


def test_a_fault_of_the_reference_excuses_no_other_output(tmp_path: Path) -> None:
    text = "agraph (int64[4] x, int64[4] z) => (int64[4] y, int64[4] w) <int64 one = {{1}}> {{ c = Max (x, one) {} }}"
    faulty = "{0} = Div (one, c) {1} = Mul ({0}, z)"
    right = "{0} = Div (one, c) {0}n = Neg ({0}) {1}p = Neg (z) {1} = Mul ({0}n, {1}p)"
    reference = text.format(f"{faulty.format('a', 'y')} {right.format('b', 'w')}")
    assert judged(tmp_path, reference, reference).status == "equal"
    found = judged(
        tmp_path, reference, text.format(f"{faulty.format('a', 'y')} {faulty.format('b', 'w')}")
    )
    assert found.status == "different" and "what the result computes, but not" in found.summary


def test_a_wrong_rewrite_is_no_fault_of_an_optimizer(tmp_path: Path) -> None:
    found = judged(tmp_path, QUOTIENT, QUOTIENT.replace("Mul (a, z)", "Add (a, z)"))
    assert (
        found.status == "different"
        and not found.optimizer_faults
        and "onnxruntime" not in found.summary
    )


@pytest.mark.parametrize("level", LEVELS[1:])
def test_each_level_by_itself(tmp_path: Path, level: str) -> None:
    (fault,) = judged(tmp_path, QUOTIENT, QUOTIENT, levels=[level]).optimizer_faults
    assert fault.level == level and f"at level {level} " in str(fault)


def test_no_other_level_without_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = ModelFile.runner

    def runner(self: ModelFile, level: str = "disabled", disabled: Sequence[str] = ()) -> Runner:
        opened.append(level)
        return original(self, level, disabled)

    monkeypatch.setattr(ModelFile, "runner", runner)
    judged(tmp_path, QUOTIENT, QUOTIENT.replace("Mul (a, z)", "Add (a, z)"))
    judged(tmp_path, SAME_WITHOUT_THE_PATTERN, SAME_WITHOUT_THE_PATTERN, levels=["disabled"])
    assert set(opened) == {"disabled"}
    judged(tmp_path, SAME_WITHOUT_THE_PATTERN, SAME_WITHOUT_THE_PATTERN)
    assert opened[-1] == "all" and opened.count("all") == 1


@pytest.mark.parametrize("error", [OutOfMemory("no memory"), Overdue("it takes longer than 1 s")])
def test_a_level_for_which_there_is_no_memory_or_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RunError
) -> None:
    fails_at_a_level(monkeypatch, error, unless_off=0)
    found = judged(tmp_path, PLAIN, PLAIN)
    assert (found.status, found.optimizer_faults) == ("equal", ())
    assert found.summary == f"equal in 7 runs; not run at level all: {error}"


def test_an_optimizer_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at_a_level(monkeypatch, Crashed("it ends the process"), unless_off=len(OPTIMIZERS) + 1)
    (fault,) = judged(tmp_path, PLAIN, PLAIN).optimizer_faults
    assert fault.optimizers == () and fault.setting == "graph_optimization_level = ORT_DISABLE_ALL"
    assert (
        "own optimization, as a whole, changes what both models compute (seed 0, N=2: "
        "onnxruntime cannot"
    ) in str(fault)


def fails_at_a_level(monkeypatch: pytest.MonkeyPatch, error: RunError, unless_off: int) -> None:
    original = ModelFile.runner

    def runner(self: ModelFile, level: str = "disabled", disabled: Sequence[str] = ()) -> Runner:
        if level != "disabled" and not 0 < unless_off <= len(disabled):
            raise error
        return original(self, level, disabled)

    monkeypatch.setattr(ModelFile, "runner", runner)


def test_a_model_that_draws_random_numbers_draws_the_same_at_every_level(tmp_path: Path) -> None:
    text = "agraph (float[N,3] x) => (float[N,3] y) { i = Identity (x) r = RandomNormalLike (i) y = Add (i, r) }"
    assert judged(tmp_path, text, text).summary == "equal in 7 runs"


def test_a_conversion_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(QUOTIENT), "quotient.onnx")
    assert "DivMulFusion" in (fusionc.convert("quotient.onnx").verification or "")
    assert "DivMulFusion" not in (
        fusionc.convert("quotient.onnx", runtime_level=["disabled"]).verification or ""
    )


@pytest.mark.parametrize(("times", "status"), [(3, "equal"), (10, "different")])
def test_what_the_reference_moves_as_far_is_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, status: str
) -> None:
    """A model that amplifies rounding moves when it is optimized; the reference is still within the
    tolerance.
    """

    def moved(model: Path, level: str, disabled: Collection[str], outputs: list[Any]) -> list[Any]:
        if level == "disabled":
            return outputs
        is_guilty_on = model.name == "b.onnx" and "NchwcTransformer" not in disabled
        less = 0.6 if "ConstantFolding" in disabled else 1  # which is not enough to be at fault
        share = 5e-5 * (times * less if is_guilty_on else 1)
        return [y + share * np.abs(y).max() for y in outputs]

    plant_runs(monkeypatch, moved)
    text = "agraph (float[N,64] x) => (float[N,64] y) { y = Identity (x) }"
    found = judged(tmp_path, text, text)
    assert found.status == status
    assert [fault.optimizers for fault in found.optimizer_faults] == (
        [] if times == 3 else [("NchwcTransformer",)]
    )


def test_another_answer_each_time_is_no_fault_of_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime's FusedMatMul hands out what lay in memory where there is nothing to sum."""
    runs = count(1)

    def garbage(model: Path, level: str, _: Collection[str], outputs: list[Any]) -> list[Any]:
        number = next(runs) if level != "disabled" and model.name == "b.onnx" else 0
        return [y + number for y in outputs]

    plant_runs(monkeypatch, garbage)
    found = judged(tmp_path, PLAIN, PLAIN)
    assert (found.status, found.optimizer_faults) == ("equal", ())
    assert "left out at level all, where onnxruntime's answer differs each time" in found.summary
