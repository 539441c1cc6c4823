"""The files of a command: the type of paths on the command line, and writing text."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from fusionc.disk.paths import address_error, stream_at
from fusionc.disk.small_files import write_where_told
from fusionc.errors import FusioncError, UsageError


class FilePath(click.Path):
    """A click type for the path of a file or folder. An empty path is an error, because Path("") is
    the current folder. "-" is an error, because a model may need more than one file.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text of an option as a Path. Raises click.BadParameter if it is empty or "-"."""
        if value == "":
            self.fail("it is empty; give a path, or leave the option out.", param, ctx)
        if value == "-":
            self.fail(
                "- is the standard input or output, and a model may be several files; give the "
                "path of a file (./- for a file of this name).",
                param,
                ctx,
            )
        if isinstance(value, str) and (error := address_error(Path(value))):
            raise error
        return super().convert(value, param, ctx)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8, completely or not at all.

    Raises UsageError for a path that ends in .onnx and for a missing folder, and FusioncError
    E13004 for other failures.
    """
    if path.suffix.lower() == ".onnx":
        hint = "give a name that ends in .json"
        raise UsageError(
            "a text file cannot have the ending .onnx", where=str(path), hint=hint, code="E10001"
        )
    try:
        write_where_told(path if stream_at(path) else Path(os.path.realpath(path)), text)
    except OSError as error:
        what = f"the file cannot be written: {error.strerror}"
        if not path.parent.exists():
            folder = shlex.quote(str(path.parent))
            hint = f"make the folder (mkdir -p {folder}), or give another folder"
            raise UsageError(what, where=str(path), hint=hint, code="E13004") from error
        hint = "choose a folder in which you may write"
        raise FusioncError(what, where=str(path), hint=hint, code="E13004") from error
