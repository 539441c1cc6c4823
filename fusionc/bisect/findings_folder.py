"""The folder that a search writes into: a switch file, and small models, which replace those of a
former search.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import onnx

from fusionc.disk.paths import stream_at
from fusionc.disk.small_files import replace_bytes, replace_text
from fusionc.errors import UsageError

_SWITCHES = "switches.json"
_MODEL = re.compile(r"\d+_\w+\.onnx")
_MARKS = ("fusionc", "rewrite")  # the producer of a search's models, and the name of their graph


class FindingsFolder:
    """Changes nothing in the folder until there is something to write. Raises UsageError if it has
    files that no search has written, or one that is `used`.
    """

    def __init__(self, folder: Path, used: Iterable[Path]) -> None:
        self._folder = folder
        self._is_begun = False
        hint = "give another folder with --output_dir"
        if folder.exists() and not folder.is_dir():
            raise UsageError(
                "this is not a folder", where=f"--output_dir {folder}", hint=hint, code="E10001"
            )
        files = sorted(folder.iterdir()) if folder.exists() else []
        self._former = list(filter(_is_of_a_search, files))
        read = set(map(os.path.realpath, used))
        others = [file for file in files if file not in self._former and not _is_switches(file)]
        others += [file for file in self._former if os.path.realpath(file) in read]
        if others:
            what = "there is a file that fusionc bisect has not written, or reads"
            raise UsageError(what, where=str(others[0]), hint=hint, code="E10001")

    @property
    def place(self) -> Path:
        """The folder, or the nearest existing one above it: a place for results that are
        examined.
        """
        return next(
            path for path in (self._folder, *self._folder.absolute().parents) if path.is_dir()
        )

    def write_model(self, name: str, model: onnx.ModelProto) -> Path:
        """Write a model, and return its file."""
        self._begin()
        file = self._folder / f"{name}.onnx"
        replace_bytes(file, model.SerializeToString())
        return file

    def write_switches(self, text: str) -> Path:
        """Write the switch file, and return it."""
        self._begin()
        replace_text(self._folder / _SWITCHES, text)
        return self._folder / _SWITCHES

    def _begin(self) -> None:
        if not self._is_begun:
            self._folder.mkdir(parents=True, exist_ok=True)
            for file in self._former:
                file.unlink(missing_ok=True)
        self._is_begun = True


def _is_of_a_search(file: Path) -> bool:
    """Whether a search has written this model."""
    return not stream_at(file) and bool(_MODEL.fullmatch(file.name)) and _is_ours(file)


def _is_switches(file: Path) -> bool:
    return not stream_at(file) and file.name == _SWITCHES


def _is_ours(file: Path) -> bool:
    try:
        model = onnx.load(file, load_external_data=False)
    except Exception:  # protobuf's errors, which have no common base
        return False
    return (model.producer_name, model.graph.name) == _MARKS
