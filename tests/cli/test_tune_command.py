from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import Result
from harness import parse

from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.rounds import Measured
from fusionc.cli import tune_command
from fusionc.tune import measuring_laboratory
from fusionc.tune.configuration import TunedChange
from fusionc.tune.decisions import Worth

Run = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model, and rounds in which threads that do not spin take half of the time."""

    def measure(
        models: Mapping[str, DeployedModel], _feeds: Any, _seconds: float, seed: int
    ) -> dict[str, Measured]:
        found = {}
        for number, (name, one) in enumerate(models.items()):
            time = (
                0.01 * (1 if one.settings.spinning else 0.5) * (1 + 0.001 * ((seed + number) % 3))
            )
            found[name] = Measured(((time,),), 0.01, 1, 2, 3)
        return found

    monkeypatch.setattr(measuring_laboratory, "measure_round", measure)
    onnx.save(
        parse("g (float[N,4] x) => (float[N,4] y) { a = Exp (x)  y = Tanh (a) }"),
        tmp_path / "m.onnx",
    )
    return "m.onnx"


AGAIN = (
    "fusionc convert --model m.onnx --output out.again.onnx --fusion_switch_file out.switches.json"
)


def test_a_table_and_the_files(run: Run, model: str) -> None:
    result = run("tune", "--model", model, "--output", "out.onnx", "--enable_graph_kernel=false")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("change ") and "no spinning" in result.output.splitlines()[1]
    assert "delivered           the tuned model, confirmed: 0.5" in result.output
    assert "out.session.json: no spinning" in result.output
    assert f"{AGAIN}  # without the settings" in result.output
    assert {path.name for path in Path().glob("out*")} == {
        "out.onnx", "out.session.json", "out.switches.json", "out.tune.svg"
    }  # fmt: skip


def test_what_only_the_last_run_has_confirmed_is_said(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        measuring_laboratory.MeasuringLaboratory, "has_time", lambda self, stage: stage != "test"
    )
    result = run("tune", "--model", model, "--output", "out.onnx", "--enable_graph_kernel=false")
    lines = result.output.splitlines()
    assert lines[1].startswith("no spinning") and lines[1].endswith("confirmed by the last run")
    assert f"{AGAIN}  # without the settings" in result.output


def test_a_second_tuning_does_not_say_that_the_settings_of_the_first_are_gone(
    run: Run, model: str
) -> None:
    words = ("tune", "--model", model, "--output", "out.onnx", "--enable_graph_kernel=false")
    run(*words)
    assert Path("out.session.json").is_file()
    result = run(*words)
    assert result.exit_code == 0 and "out.session.json: no spinning" in result.output
    assert "is gone" not in result.output


def test_json(run: Run, model: str) -> None:
    result = run(
        "tune", "--model", model, "--output", "out.onnx", "--enable_graph_kernel=false", "--json"
    )
    found = json.loads(result.stdout)
    assert found["delivered"] == "tuned" and found["settings"]["spinning"] is False
    assert {"change": "no spinning", "state": "pays"}.items() <= found["changes"][0].items()
    assert found["last_run"]["tuned / original"]["high"] < 1


@pytest.mark.parametrize(
    "words",
    [("--budget", "soon"), ("--budget", "-5m"), ("--budget", "0s"), ("--confidence", "100")],
)
def test_wrong_options(run: Run, model: str, words: tuple[str, ...]) -> None:
    assert run("tune", "--model", model, *words).exit_code == 2


@pytest.mark.parametrize("chosen, tested, said", [
    ([-0.2, -0.21, -0.2], [], "undecided, not tested"),
    ([-0.2], [-0.2, -0.21, -0.2], "undecided, because several changes were tested"),
    ([-0.2], [-0.2, 0.3, -0.1], "undecided"),
])  # fmt: skip
def test_an_undecided_change_says_why(chosen: list[float], tested: list[float], said: str) -> None:
    worth = Worth(TunedChange("a", "passes"), "undecided", chosen=chosen, tested=tested)
    interval = worth.interval(0.95)
    assert interval is not None and tune_command._why_undecided(worth, interval) == said


def test_interrupted_it_says_that_it_goes_on(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring_laboratory, "measure_round", interrupted)
    result = run("tune", "--model", model, "--output", "out.onnx", "--enable_graph_kernel=false")
    assert result.exit_code == 130 and "the same command continues from it" in result.stderr
    assert Path("out.tune.jsonl").is_file() and not Path("out.onnx").exists()


def test_no_model(run: Run) -> None:
    result = run("tune", "--model", "absent.onnx")
    assert result.exit_code == 2 and "absent.onnx" in result.output
