from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from click.testing import Result
from harness import parse

Run = Callable[..., Result]
QUICK = ("--processes", "1", "--seconds", "0.01")


@pytest.fixture
def model(tmp_path: Path) -> str:
    onnx.save(
        parse("g (float[N,4] x) => (float[N,4] y) { a = Exp (x)  y = Tanh (a) }"),
        tmp_path / "m.onnx",
    )
    return "m.onnx"


def test_a_table_and_the_operators(run: Run, model: str) -> None:
    result = run("bench", model, *QUICK, "--threads", "1")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("model ") and "operators of m.onnx" in result.output
    assert (
        "Tanh" in result.output
        and "samples/s" in result.output
        and "inputs     seed 0, N=" in result.output
    )


def test_json(run: Run, model: str) -> None:
    result = run("bench", model, model, *QUICK, "--json")
    first, second = json.loads(result.stdout)["models"]
    assert (
        first["ratio"] is None
        and second["ratio"]["observations"] == 1
        and second["ratio"]["high"] is None
    )
    assert first["peak"] > first["imported"] > 0


@pytest.mark.parametrize(
    "words",
    [("--batch_sizes", "1,x"), ("--threads", "0"), ("--processes", "0"), ("--seconds", "0")],
)
def test_wrong_numbers(run: Run, model: str, words: tuple[str, ...]) -> None:
    assert run("bench", model, *words).exit_code == 2


def test_no_model(run: Run) -> None:
    result = run("bench", "absent.onnx")
    assert result.exit_code == 2 and "the model does not exist" in result.output
    assert run("bench").exit_code == 2
