"""The folder for the findings of a search: a switch file and small models. New findings replace
those of an earlier search.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import filterfalse
from pathlib import Path

import onnx

from fusionc.disk.paths import stream_at
from fusionc.disk.small_files import replace_bytes, replace_text
from fusionc.errors import UsageError

_SWITCHES = "switches.json"
_MODEL = re.compile(r"\d+_\w+\.onnx")
# the producer and the graph name of the models that a search writes
_SIGNATURE = ("fusionc", "rewrite")


class FindingsFolder:
    """The folder for findings. Files of an earlier search are removed only when the first finding
    is written.

    Raises UsageError if the folder has files that are not from a search, or if one of its files is
    in `used`, that is, an input of this search.
    """

    def __init__(self, folder: Path, used: Iterable[Path]) -> None:
        self._folder = folder
        self._is_begun = False
        hint = "give another folder with --output_dir"
        if folder.exists() and not folder.is_dir():
            where = f"--output_dir {folder}"
            raise UsageError("the path is not a folder", where=where, hint=hint, code="E10001")
        files = sorted(folder.iterdir()) if folder.exists() else []
        self._former = list(filter(_is_former_model, files))
        if others := [*filterfalse(_is_former, files), *_used_files(self._former, used)]:
            what = "the folder has a file that fusionc bisect reads, or that it did not write"
            raise UsageError(what, where=str(others[0]), hint=hint, code="E10001")

    @property
    def place(self) -> Path:
        """A folder for temporary results: this folder or, if it does not exist, its nearest
        parent.
        """
        return next(
            path for path in (self._folder, *self._folder.absolute().parents) if path.is_dir()
        )

    def write_model(self, name: str, model: onnx.ModelProto) -> Path:
        """Write a model, and return its path."""
        self._begin()
        file = self._folder / f"{name}.onnx"
        replace_bytes(file, model.SerializeToString())
        return file

    def write_switches(self, text: str) -> Path:
        """Write the switch file, and return its path."""
        self._begin()
        replace_text(self._folder / _SWITCHES, text)
        return self._folder / _SWITCHES

    def _begin(self) -> None:
        if not self._is_begun:
            self._folder.mkdir(parents=True, exist_ok=True)
            for file in self._former:
                file.unlink(missing_ok=True)
        self._is_begun = True


def _is_former_model(file: Path) -> bool:
    """Whether an earlier search wrote this model."""
    if stream_at(file) or not _MODEL.fullmatch(file.name):
        return False
    try:
        model = onnx.load(file, load_external_data=False)
    except Exception:  # protobuf's exceptions have no common base class
        return False
    return (model.producer_name, model.graph.name) == _SIGNATURE


def _is_former(file: Path) -> bool:
    """Whether an earlier search may have written this file."""
    return (file.name == _SWITCHES and not stream_at(file)) or _is_former_model(file)


def _used_files(files: Iterable[Path], used: Iterable[Path]) -> list[Path]:
    """Those of the files that are in `used`. Symbolic links are resolved first."""
    own = set(map(os.path.realpath, used))
    return [file for file in files if os.path.realpath(file) in own]
