"""The command line with stand-ins for what it calls: a conversion, a verification, a registry."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fusionc.cli import main
from fusionc.report import Report
from fusionc.rewrite.log import PatternCount

Run = Callable[..., Result]


class FakeConvert:
    """Stands in for fusionc.convert: remembers its arguments, and raises `error` or returns
    `report`.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self.report = Report(
            Path("in.onnx"),
            patterns=[
                PatternCount(0, "GraphFusion", "ConvBatchnormFusionPass", "conv_bn", effected=2)
            ],
            pattern_lines=[
                (
                    "[INFO] GraphId[0], GraphFusionPass[X]: pattern=y, matched_times=2, "
                    "effected_times=1."
                )
            ],
            notices=["from the conversion"],
        )

    def __call__(self, model: Path, **options: Any) -> Report:
        self.calls.append({"model": model, **options})
        if self.error is not None:
            raise self.error
        return self.report


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces a module of fusionc by a module with the given contents."""

    def replace(module: str, **contents: object) -> None:
        fake = ModuleType(module)
        vars(fake).update(contents)
        monkeypatch.setitem(sys.modules, module, fake)

    return replace


@pytest.fixture
def fake_convert(stand_in: Callable[..., None]) -> FakeConvert:
    fake = FakeConvert()
    stand_in("fusionc.api", convert=fake)
    return fake


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs `fusionc` with the given arguments in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Result:
        return CliRunner().invoke(main, list(words), prog_name="fusionc")

    return command
