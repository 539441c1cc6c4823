"""What a verification may cost: it is known before it is paid, the same everywhere, and what is
left out is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx.parser import parse_model

import fusionc
from fusionc.cli import main
from fusionc.runtime.runner import Runner, _state
from fusionc.verify import verify
from fusionc.verify.budget import Budget, Work, budget_for, elements_of
from fusionc.verify.inputs.sized_model import SizedModel
from fusionc.verify.interface import required_inputs
from fusionc.verify.judge import Judge

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
CHAIN = "g (float[N,8] x) => (float[N,8] y) { a = Neg (x) b = Neg (a) y = Relu (b) }"
MIB = 1 << 20


def model(text: str) -> onnx.ModelProto:
    return parse_model(HEAD + text)


def saved(text: str, path: Path) -> Path:
    onnx.save(model(text), path)
    return path


def work(text: str, **sizes: int) -> Work:
    made = model(text)
    return SizedModel(made, required_inputs(made)).work(sizes)


@pytest.mark.parametrize(
    ("body", "made", "products"),
    [
        (
            "(float[N,8,100] x, float[16,8,5] w) => (float y) { y = Conv (x, w) }",
            16 * 96,
            16 * 96 * 8 * 5,
        ),
        (
            "(float[N,8,9,9,9] x, float[4,8,3,3,3] w) => (float y) { y = Conv (x, w) }",
            4 * 7**3,
            4 * 7**3 * 8 * 27,
        ),
        (
            "(float[N,8,9,9] x, float[8,1,3,3] w) => (float y) { y = Conv <group = 8> (x, w) }",
            8 * 49,
            8 * 49 * 9,
        ),
        (
            "(float[N,8,9] x, float[8,4,3] w) => (float y) { y = ConvTranspose (x, w) }",
            4 * 11,
            8 * 9 * 4 * 3,
        ),
        (
            "(float[N,7,64] x, float[64,32] w) => (float y) { y = MatMul (x, w) }",
            7 * 32,
            7 * 32 * 64,
        ),
        (
            "(float[64,N] x, float[64,32] w) => (float y) { y = Gemm <transA = 1> (x, w) }",
            32,
            32 * 64,
        ),
        (
            '(float[N,64] x, float[64,32] w) => (float y) { y = Einsum <equation = "ab,bc->ac"> (x, w) }',
            32,
            4096,
        ),
    ],
)
def test_a_product_costs_its_multiplications(body: str, made: int, products: int) -> None:
    found = [work(f"g {body}", N=size).elements for size in (64, 128)]
    assert found[1] - found[0] == pytest.approx(64 * (made + products / 32), rel=0.01)


def test_bodies_count_as_often_as_they_run() -> None:
    body = "body = b (float[1000] r) => (float[1000] s) { a = Exp (r) s = Exp (a) }"
    text = f"g (float[T,1000] x) => (float y) {{ y = Scan <num_scan_inputs = 1, {body}> (x) }}"
    assert work(text, T=1000).elements == pytest.approx(1000 * work(text, T=1).elements, rel=0.6)


def test_bytes_are_those_that_are_needed_at_once() -> None:
    chain = " ".join(f"v{k} = Exp (v{k - 1})" for k in range(1, 50))
    alone = work(f"g (float[N] v0) => (float[1] y) {{ {chain} y = ReduceSum (v49) }}", N=MIB).bytes
    assert 4 * MIB * 13 < alone < 4 * MIB * 17, (
        "two values at once, and the input, which others hold, too"
    )


def test_what_shapes_do_not_say_is_taken_from_the_first_run(tmp_path: Path) -> None:
    """A model whose output is as large as a value says."""
    text = """g (float[N] x) => (float[M] y) <float[1] many = {100000}> {
        z = Sub (x, x) s = ReduceSum (z) m = Add (s, many) n = Cast <to = 7> (m) e = Expand (s, n) y = Exp (e) }"""
    path = saved(text, tmp_path / "m.onnx")
    found = verify(path, path, elements=1_000_000)
    assert found.is_in_part and found.budget is not None and found.budget.spent > 300_000, found
    assert verify(path, path).summary == "equal in 5 runs", "NaN is no size"


def test_sizes_are_chosen_that_leave_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 is the smallest size that all three may have, and the first need not have it."""
    text = """g (float[A,B,C] x) => (float y) {
        h = Conv (x, w) y = Conv (h, v) }"""
    made = model(text)
    for name, dims in (("w", (256, 64, 33)), ("v", (64, 256, 3))):
        made.graph.initializer.append(
            onnx.numpy_helper.from_array(np.ones(dims, np.float32) / 1000, name)
        )
    onnx.save(made, tmp_path / "m.onnx")
    ran = list[tuple[int, ...]]()
    run = Runner.run

    def noted(self: Runner, feeds: Mapping[str, Any]) -> list[Any]:
        ran.append(feeds["x"].shape)
        return run(self, feeds)

    monkeypatch.setattr(Runner, "run", noted)
    assert verify(tmp_path / "m.onnx", tmp_path / "m.onnx", elements=200_000_000).status == "equal"
    assert max(shape[0] for shape in ran if shape[1] == 64 <= shape[2]) == 8, ran


def test_what_there_is_no_room_for_is_left_out_and_said(tmp_path: Path) -> None:
    path = saved(CHAIN, tmp_path / "m.onnx")
    one = work(CHAIN, N=2).elements
    found = verify(path, path, elements=7 * one)
    assert (found.status, found.runs, found.is_in_part) == ("equal", 2, True)
    assert found.summary.startswith(
        "verified in part: equal in 2 runs; left out to save budget: seed 2, zeros"
    )
    assert "--verify_budget" in found.summary
    assert found == verify(path, path, elements=7 * one), "the same each time"
    assert (
        not verify(path, path, elements=100 * one).is_in_part
        and not verify(path, path, elements=0).is_in_part
    )


def test_a_difference_is_found_whatever_the_budget_is(tmp_path: Path) -> None:
    path = saved(CHAIN, tmp_path / "a.onnx")
    other = saved(CHAIN.replace("Relu", "Abs"), tmp_path / "b.onnx")
    assert verify(path, other, elements=1).status == "different"


def test_the_judgement_of_a_sample_counts(tmp_path: Path) -> None:
    budget = Budget(1000, 1000)
    budget.spend(Work(10, 500))
    assert (budget.spent, budget.most_bytes) == (30, 500)
    budget.spend(Work(10, 0), 97)
    assert budget.is_spent and not budget.anew().is_spent


def test_many_values_at_once_are_no_usual_sample() -> None:
    budget = budget_for(model(CHAIN))
    assert budget.has_room(Work(1, 512 * MIB)) and not budget.has_room(Work(1, 513 * MIB))
    assert budget.is_modest(Work(10**9, 256 * MIB)) and not budget.is_modest(Work(1, 257 * MIB))
    assert [elements_of(number) for number in (None, 0, 1e-12, 2)] == [None, 0, 1, 2 * 10**9]


@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_a_conversion_that_is_verified_in_part_says_so_and_succeeds() -> None:
    saved(CHAIN, Path("m.onnx"))
    done = CliRunner().invoke(
        main, ["convert", "--model", "m.onnx", "--verify_budget", "0.000000001"]
    )
    assert done.exit_code == 0 and "verified in part: equal in 1 run" in " ".join(
        done.output.split()
    ), done.output
    told = json.loads(Path("fusion_result.json").read_text())["fusionc"]["verification_budget"]
    assert (told["verified"], told["most_elements"]) == (
        "verified in part",
        "1",
    ) and "zeros" in told["left_out"]
    report = fusionc.convert("m.onnx", export_compile_stat=1)
    assert report.verification == "equal in 7 runs"
    told = json.loads(Path("fusion_result.json").read_text())["fusionc"]["verification_budget"]
    assert (told["verified"], told["left_out"]) == ("verified", "") and int(
        told["compared"]
    ) >= 4096
    again = CliRunner().invoke(
        main, ["verify", "m.onnx", "m.onnx", "--verify_budget", "0.000000001"]
    )
    assert again.exit_code == 0 and again.output.startswith("verified in part: "), again.output


TOP = """g (float[N,100] x) => (float[N,3] v) <int64[1] k = {3}, int64[1] axes = {1}, float one = {1}> {
    e = Exp (x) b = ReduceMean (x, axes) BODY t, i = TopK (s, k) v = GatherElements <axis = 1> (x, i) }"""


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (
            "p = Mul (b, e) s = Div (p, e)",
            "q = Div (e, e) s = Mul (b, q)",
            "the 4 inner values that both models have before TopK (i) are equal",
        ),
        (
            "s = Identity (e)",
            "s = Mul (e, one)",
            "all 6 inner values that both models have are equal",
        ),
        ("s = Identity (e)", "s = Cos (e)", ""),
    ],
)
def test_what_is_in_front_of_a_choice_among_near_equals_is_compared(
    ours: str, theirs: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no output decides anything, the values inside do: up to the operator that decides by
    the last bit.
    """
    path = saved(TOP.replace("BODY", ours), tmp_path / "a.onnx")
    other = saved(TOP.replace("BODY", theirs), tmp_path / "b.onnx")

    def unstable(self: Judge, *_: Any) -> tuple[str, list[Any]]:
        self.tally.left_out += 1
        return "unstable", []

    monkeypatch.setattr(Judge, "outcome", unstable)
    found = verify(path, other)
    assert (found.status, found.is_in_part) == (
        ("equal", True) if said else ("impossible", False)
    ), found
    assert found.summary.startswith(
        f"verified in part: {said}" if said else "no input that was tried gives"
    ), found
    assert "no input that was tried gives" in found.summary


def test_a_run_that_takes_more_than_its_shapes_say_is_left_out(tmp_path: Path) -> None:
    """On zeros this model makes a value of 4 GB, and a sum of that."""
    constants = "float many = {1000000}, float least = {0.001}, int64[1] one = {1}"
    text = (
        f"g (float[N] x, float speed) => (float[1] y) <{constants}>"
        """ {
        a = Abs (speed) b = Max (a, least) m = Div (many, b) i = Cast <to = 7> (m) n = Reshape (i, one)
        s = ReduceSum <keepdims = 0> (x) e = Expand (s, n) y = ReduceMean (e) }"""
    )
    path = saved(text, tmp_path / "m.onnx")
    found = verify(path, path)
    assert (
        found.is_in_part
        and "left out to save budget: inputs on which a run takes more than" in found.summary
    )
    held = found.summary.partition("more than ")[2]
    assert held.startswith("1,024 MiB"), found


def test_what_a_deployed_model_is_judged_by_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes to judge the first sample at level all leaves no room for the second one."""
    path = saved(CHAIN, tmp_path / "m.onnx")
    labels = list[str]()
    judged = Judge.outcome
    times = 400

    def asking(self: Judge, sample: Any, found: Any) -> Any:
        labels.append(sample.label)
        if len(labels) == 8:
            monkeypatch.setattr("fusionc.runtime.runner._state.runs", _state.runs + times)
        return judged(self, sample, found)

    monkeypatch.setattr(Judge, "outcome", asking)
    found = verify(path, path, elements=times * work(CHAIN, N=2).elements)
    assert found.is_in_part and "at level all and all later samples" in found.summary, found
    assert labels[7:] == labels[:1]
