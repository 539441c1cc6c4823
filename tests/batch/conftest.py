"""A folder of small models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from many_models import SAMPLES, write_model


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one model, and another model in a subfolder. The current folder is the parent
    folder.
    """
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "models"
    write_model(folder / "relu.onnx")
    (folder / "sub").mkdir()
    shutil.copy(SAMPLES / "split_concat.onnx", folder / "sub/split.onnx")
    return folder
