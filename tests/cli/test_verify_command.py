from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from harness import parse
from models_with_areas import GATE

from fusionc.errors import UsageError
from fusionc.runtime import process
from fusionc.verify.locate import Located
from fusionc.verify.output_errors import OutputErrors
from fusionc.verify.result import Difference, Verification


@pytest.fixture
def answer(stand_in: Callable[..., None]) -> SimpleNamespace:
    """What the stand-in for fusionc.verify.verify was called with and answers."""
    answer = SimpleNamespace(
        calls=[], status="equal", summary="equal in 6 runs", differences=[], outputs=[], error=None
    )

    def verify(reference: Path, candidate: Path, **options: Any) -> SimpleNamespace:
        answer.calls.append((reference, candidate, options))
        if answer.error is not None:
            raise answer.error
        return answer

    stand_in("fusionc.verify", verify=verify)
    return answer


def test_equal(run: Any, answer: SimpleNamespace) -> None:
    result = run("verify", "a.onnx", "b.onnx")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "equal in 6 runs\n", "")
    ((reference, candidate, options),) = answer.calls
    assert (reference, candidate, options["input_shape"]) == (Path("a.onnx"), Path("b.onnx"), None)
    assert callable(options["progress"])


def test_shapes(run: Any, answer: SimpleNamespace) -> None:
    assert (
        run(
            "verify",
            "-input-shape",
            "x:1,2",
            "a.onnx",
            "b.onnx",
            "--inputs=d.npz",
            "--verify_budget=2",
        ).exit_code
        == 0
    )
    options = answer.calls[0][2]
    assert (options["input_shape"], options["inputs"]) == ({"x": (1, 2)}, Path("d.npz"))
    assert options["elements"] == 2 * 10**9


@pytest.mark.parametrize(("status", "exit_code"), [("different", 3), ("impossible", 4)])
def test_not_equal(run: Any, answer: SimpleNamespace, status: str, exit_code: int) -> None:
    answer.status = status
    answer.summary = "not equal"
    answer.differences = ["y: off by 1", "z: NaN"]
    result = run("verify", "a.onnx", "b.onnx")
    first = "not verified" if status == "impossible" else "not equal"
    assert (result.exit_code, result.stdout) == (exit_code, f"{first}\n  y: off by 1\n  z: NaN\n")
    assert result.stderr == ("NOT VERIFIED: not equal\n" if status == "impossible" else "")


def test_errors(run: Any, answer: SimpleNamespace) -> None:
    answer.error = UsageError("the model has no input q", hint="inputs: x", code="E10001")
    result = run("verify", "a.onnx", "b.onnx")
    assert (result.exit_code, result.stderr) == (
        2,
        "E10001: the model has no input q\n  to do: inputs: x\n",
    )
    assert "Traceback" in run("verify", "a.onnx", "b.onnx", "--log", "debug").stderr


@pytest.mark.parametrize(("shared", "name", "exit_code"), [(2, "", 0), (2, "h", 3), (0, "", 4)])
def test_locate_says_in_its_exit_code_what_came_of_it(
    run: Any, stand_in: Callable[..., None], shared: int, name: str, exit_code: int
) -> None:
    stand_in("fusionc.verify.locate", locate=lambda *_, **__: Located(shared, shared, name))
    assert run("verify", "--locate", "a.onnx", "b.onnx").exit_code == exit_code


@pytest.mark.parametrize(
    "words", [[], ["a.onnx"], ["a", "b", "c"], ["a", "b", "--input_shape=x"], ["a", "b", "--x"]]
)
def test_verify_usage_errors(run: Any, answer: SimpleNamespace, words: list[str]) -> None:
    assert run("verify", *words).exit_code == 2
    assert answer.calls == []


def test_a_limit_for_every_step(run: Any, stand_in: Callable[..., None]) -> None:
    limits: list[float] = []

    def verify(*_: Path, **__: Any) -> SimpleNamespace:
        limits.append(process._state.seconds)
        return SimpleNamespace(status="equal", summary="equal", differences=[], outputs=[])

    stand_in("fusionc.verify", verify=verify)
    for words in (["--timeout", "2.5"], ["--timeout=0"], []):
        assert run("verify", "a.onnx", "b.onnx", *words).exit_code == 0
    assert limits == [2.5, 0, 300]
    for word in ("-1", "nan", "1e10", "abc"):
        result = run("verify", "a.onnx", "b.onnx", f"--timeout={word}")
        assert (
            result.exit_code == 2
            and f"'{word}' is not a number of seconds from 0 to 1e9" in result.stderr
        )


@pytest.mark.parametrize("word", ["--input_shape", "--verify_shape", "-verify-shape"])
def test_sizes_have_the_name_that_convert_has_for_them(
    run: Any, answer: SimpleNamespace, word: str
) -> None:
    assert run("verify", "a.onnx", "b.onnx", word, "x:1,2").exit_code == 0
    assert answer.calls[0][2]["input_shape"] == {"x": (1, 2)}


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        ([], None),
        (["--rtol", "1e-3"], (0.0, 1e-3)),
        (["--atol=0.5"], (0.5, 0.0)),
        (["--atol=0", "--rtol=2"], (0.0, 2.0)),
    ],
)
def test_bounds(run: Any, answer: SimpleNamespace, words: list[str], bounds: Any) -> None:
    assert run("verify", "a.onnx", "b.onnx", *words).exit_code == 0
    assert answer.calls[0][2]["bounds"] == bounds


@pytest.mark.parametrize("word", ["--rtol=-1", "--atol=nan", "--rtol=x", "--atol=inf"])
def test_what_is_no_bound(run: Any, answer: SimpleNamespace, word: str) -> None:
    result = run("verify", "a.onnx", "b.onnx", word)
    assert result.exit_code == 2 and "is not a number from 0 to 1e9" in result.stderr
    located = run("verify", "a.onnx", "b.onnx", "--locate", "--rtol=1")
    assert located.exit_code == 2 and "--locate does not compare with" in located.stderr


def test_json_and_quiet(run: Any, stand_in: Callable[..., None]) -> None:
    row = OutputErrors("y", "disabled", 3, 0.5, float("inf"), float("nan"), "seed 0: [1]")
    outcome = Verification("different", 2, "differs", (Difference("y", "seed 0", "off"),))
    outcome = replace(outcome, outputs=(row,))
    stand_in("fusionc.verify", verify=lambda *_, **__: outcome)
    result = run("verify", "a.onnx", "b.onnx", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"], answer["runs"]) == (3, "different", 2)
    assert answer["differences"] == [{"subject": "y", "run": "seed 0", "reason": "off"}]
    assert answer["outputs"][0]["max_abs"] == 0.5 and answer["outputs"][0]["cosine"] is None
    quiet = run("verify", "a.onnx", "b.onnx", "-q")
    assert (quiet.exit_code, quiet.output) == (3, "")


def test_json_of_the_first_value_that_differs(run: Any, stand_in: Callable[..., None]) -> None:
    stand_in("fusionc.verify.locate", locate=lambda *_, **__: Located(2, 1, "h"))
    result = run("verify", "--locate", "a.onnx", "b.onnx", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"], answer["name"]) == (3, "different", "h")


def test_kernels_that_were_not_run_are_named(run: Any, answer: SimpleNamespace) -> None:
    area = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "fusionc.gk" : 1]>
        agraph (float[N,4] x) => (float[N,4] y) { y = fusionc.gk.area (x) }
        <domain: "fusionc.gk", opset_import: ["" : 20]> area (x) => (y) { y = Gelu (x) }"""
    )
    onnx.save(area, "b.onnx")
    answer.as_json = dict
    assert run("verify", "a.onnx", "b.onnx").stdout == "equal in 6 runs\n"
    Path("b.kernels.so").touch()
    note = (
        "the kernels in b.kernels.so were not run; the conversion that made them verified them, "
        "unless it had --no-verify"
    )
    assert run("verify", "a.onnx", "b.onnx").stdout == f"equal in 6 runs\n{note}\n"
    assert json.loads(run("verify", "a.onnx", "b.onnx", "--json").stdout)["kernels"] == note
    Path("c.kernels.so").touch()
    onnx.save(parse(GATE), "c.onnx")
    assert json.loads(run("verify", "a.onnx", "c.onnx", "--json").stdout)["kernels"] is None
