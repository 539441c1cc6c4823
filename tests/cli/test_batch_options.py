"""`fusionc convert` of many models, as a command line and as what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusionc.batch.batch_progress import BatchProgress
from fusionc.batch.outcome import CONVERTED, DIFFERENT, FAILED, KEPT, UNVERIFIED, Outcome
from fusionc.batch.summary import Summary

SUMMARY = Path("out/fusionc_records/summary.json")


class FakeBatch:
    """Stands in for the conversion of many models: remembers what it is asked for, and returns
    these outcomes.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.outcomes = [
            Outcome(
                "a.onnx",
                "models/a.onnx",
                CONVERTED,
                nodes=(12, 7),
                effected=5,
                verification="equal in 7 runs",
            ),
            Outcome("sub/b.onnx", "models/sub/b.onnx", KEPT, nodes=(3, 3), effected=0),
        ]
        self.error: BaseException | None = None

    def __call__(
        self, models: Any, output: Path, arguments: dict[str, Any], **options: Any
    ) -> Summary:
        self.calls.append(
            {"names": [model.name for model in models], "output": output, **arguments, **options}
        )
        options["tell"](self.outcomes[0])
        if self.error is not None:
            raise self.error
        return Summary(self.outcomes, ["of all", *options["notes"]], 1.5)


@pytest.fixture
def batch(stand_in: Any, tmp_path: Path) -> FakeBatch:
    fake = FakeBatch()
    stand_in("fusionc.batch.batch_story", convert_many=fake)
    for name in ("a.onnx", "sub/b.onnx"):
        (tmp_path / "models" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "models" / name).write_bytes(b"")
    return fake


def convert(run: Any, *words: str) -> Any:
    return run("convert", "--model=models", "--output=out", *words)


def test_a_table_and_what_it_comes_to(run: Any, batch: FakeBatch) -> None:
    result = convert(
        run, "--no-verify", "--jobs=3", "--resume", "--enable_graph_kernel", "--soc_version=x"
    )
    (call,) = batch.calls
    assert (call["names"], call["output"]) == (["a.onnx", "sub/b.onnx"], Path("out"))
    assert (call["verify"], call["jobs"], call["resume"], call["scheduler"]) == (
        False,
        3,
        True,
        None,
    )
    assert call["enable_graph_kernel"] is True and "model" not in call and "progress" not in call
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("  ")[0] for line in result.stdout.splitlines()[1:4]] == [
        "model",
        "a.onnx",
        "sub/b.onnx",
    ]
    for line in (
        "a.onnx      converted     12      7         5  0.00  equal in 7 runs",
        "notice   of all",
    ):
        assert line in result.stdout.splitlines()
    assert "models   2: 1 converted, 1 kept\n" in result.stdout
    assert (
        "notice   --soc_version is accepted, but has no effect\n" in result.stdout
        and f"summary  {SUMMARY}\n" in result.stdout
    )


@pytest.mark.parametrize(("state", "exit_code"), [(FAILED, 1), (DIFFERENT, 3)])
def test_one_exit_code(run: Any, batch: FakeBatch, state: str, exit_code: int) -> None:
    for wrong in (FAILED, state):
        batch.outcomes.append(
            Outcome("c.onnx", "models/c.onnx", wrong, error="E13005: it is damaged\n  to do: throw")
        )
    result = convert(run)
    assert result.exit_code == exit_code
    assert " E13005: it is damaged\n" in result.stdout
    assert f"E19999: 2 of 4 models were not converted\n  where: {SUMMARY}\n" in result.stderr


def test_results_that_are_not_verified_are_named_last(run: Any, batch: FakeBatch) -> None:
    batch.outcomes.append(
        Outcome("c.onnx", "models/c.onnx", UNVERIFIED, verification="not verified: no kernel")
    )
    result = convert(run)
    assert (result.exit_code, result.stderr) == (4, "NOT VERIFIED: 1 of 3 models: c.onnx\n")
    assert "models   3: 1 converted, 1 unverified, 1 kept\n" in result.stdout
    assert "run success" not in result.stdout and "run failed" not in result.stdout


@pytest.mark.parametrize(("others", "exit_code"), [([], 4), ([FAILED], 1), ([DIFFERENT], 3)])
def test_results_that_had_to_be_verified_are_missing(
    run: Any, batch: FakeBatch, others: list[str], exit_code: int
) -> None:
    batch.outcomes += [
        Outcome("c.onnx", "models/c.onnx", state, error="E19999: nothing could be verified")
        for state in (UNVERIFIED, *others)
    ]
    result = convert(run, "--require_verification")
    assert result.exit_code == exit_code and "models were not converted" in result.stderr


def test_a_report_for_scripts(run: Any, batch: FakeBatch) -> None:
    batch.outcomes.append(Outcome("c.onnx", "models/c.onnx", FAILED, error="E13005: damaged"))
    assert convert(run, "--report_json=r.json", "-q").output.startswith("E19999: 1 of 3 models")
    report = json.loads(Path("r.json").read_text())
    assert report["exit_code"] == 1 and report["error"]["what"].startswith("1 of 3 models")
    assert [one["state"] for one in report["models"]] == ["converted", "kept", "failed"]


def test_an_interruption_says_how_far_it_was(run: Any, batch: FakeBatch) -> None:
    batch.error = KeyboardInterrupt()
    result = convert(run)
    assert result.exit_code == 130
    assert result.stderr.startswith(
        "fusionc: 1 of 2 models are done; the same command with --resume continues\n"
    )
    progress = BatchProgress(3)
    progress(Outcome("a.onnx", "a.onnx", CONVERTED))
    progress(Outcome("b.onnx", "b.onnx", FAILED))
    assert progress.said == "2 of 3 models are done, 1 without a result"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--model=models"],
            "E10001: many models are converted, so --output must name a folder for the results\n",
        ),
        (
            ["--model=models", "--mode=6"],
            "Error: --mode 6 is for one model, and --model names many.",
        ),
        (
            ["--model", "a.onnx", "b.onnx", "--output=out"],
            "write --model before each model, or a pattern in quotes",
        ),
        (["--model=models", "--output=out", "--jobs=0"], "Invalid value for '--jobs'"),
    ],
)
def test_what_cannot_be_meant(run: Any, batch: FakeBatch, words: list[str], problem: str) -> None:
    result = run("convert", *words)
    assert result.exit_code == 2 and problem in result.stderr and not batch.calls


def test_options_without_effect(run: Any, batch: FakeBatch, fake_convert: Any) -> None:
    result = run("convert", "--model=a.onnx", "--jobs=2", "--scheduler=tcp://x:1")
    assert (
        "--jobs, --scheduler are accepted, but have no effect" in result.stdout
        and len(fake_convert.calls) == 1
    )
    assert (
        "--jobs is accepted, but has no effect\n"
        in convert(run, "--jobs=2", "--scheduler=tcp://x:1").stdout
    )
