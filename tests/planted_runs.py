"""Let verification see other outputs than the models really give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusionc.runtime.runner import Runner
from fusionc.verify.model_file import ModelFile

Planted = Callable[[Path, str, Collection[str], list[Any]], list[Any]]


def plant_runs(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    """Replace the outputs of each run by the result of `planted`. Its arguments are the path of the
    model, the level of onnxruntime's optimizers, the disabled optimizers, and the true outputs.
    """
    real = ModelFile.runner

    def runner(
        self: ModelFile,
        level: str = "disabled",
        disabled: Sequence[str] = (),
        is_lean: bool = False,
    ) -> Runner:
        made = real(self, level, disabled, is_lean)
        run = made.run
        monkeypatch.setattr(
            made, "run", lambda feeds: planted(self.path, level, disabled, run(feeds))
        )
        return made

    monkeypatch.setattr(ModelFile, "runner", runner)
