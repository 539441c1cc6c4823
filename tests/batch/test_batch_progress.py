"""The bar of many models: in a terminal only."""

from __future__ import annotations

import sys

import pytest

from fusionc.batch.batch_progress import BatchProgress
from fusionc.batch.outcome import CONVERTED, FAILED, Outcome


def run() -> BatchProgress:
    with BatchProgress(2) as progress:
        progress(Outcome("a.onnx", "a.onnx", FAILED))
        progress(Outcome("b.onnx", "b.onnx", CONVERTED))
    return progress


def test_quiet_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert run().done == 2
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    run()
    output, shown = capsys.readouterr()
    assert output == "" and "2/2" in shown and "models, 1 without a result" in shown
