"""`fusionc --help` answers before anything large is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGE = {"onnx", "onnxruntime", "onnx_graphsurgeon", "numpy", "rich", "google"}


def imported_by(*words: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "fusionc", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Usage: " in done.stdout
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    "words", [["--help"], ["convert", "--help"], ["verify", "-h"], ["passes", "-help"]]
)
def test_help_imports_nothing_large(words: list[str]) -> None:
    imported = imported_by(*words)
    assert "click" in imported  # the list of modules was really read
    assert not imported & LARGE
