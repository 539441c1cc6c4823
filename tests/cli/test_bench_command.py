from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from click.testing import Result
from harness import parse

from fusionc.bench.bench_story import Bench, ModelCost, Throughput
from fusionc.bench.intervals import RatioInterval
from fusionc.cli.bench_command import _show
from fusionc.runtime.profile import Profile

RATIO = RatioInterval(1.016, 0.580, 1.778, 5)
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


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_terminal_of_any_width_shows_every_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    area = "MatMul_Add_Sum_LayerNormalization_MatMul_BiasGelu_blocked_ee511365f734"
    operators = Profile(9, 1e-4, 2e-5, {area: (1, 14e-6), "Conv": (3, 55e-6)})
    costs = [
        ModelCost(
            name, {0.5: 72e-6, 0.9: 86e-6, 0.99: 24195e-6}, 0.073, 50_000_000, 60_900_000,
            61_600_000, ratio, operators, {area: "area 1: 6 operators, blocked"},
        )
        for name, ratio in (("m.onnx", None), ("another_long_name_of_a_model.onnx", RATIO))
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _show(Bench("seed 0", costs, [Throughput("m.onnx", 8, 0, 21731.8)]))
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    text = " ".join(" ".join(lines).split())
    for number in ("73.0", "61.6", "0.072", "0.086", "24.195", "1.016", "0.580 to 1.778"):
        assert number in text
    for number in ("0.055", "55.0", "0.014", "14.0", "21731.8"):
        assert number in text
    assert text.count("area 1: 6 operators, blocked") == 2 and "LayerNormalization" not in text
    assert "operators of another_long_name_of_a_model.onnx, profiled" in text
    assert "samples/s" in text and "p99 ms" in text and max(map(len, lines)) <= max(width, 80)


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
