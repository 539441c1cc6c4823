"""Text that a command writes to a file."""

from __future__ import annotations

from pathlib import Path

from fusionc.errors import FusioncError, UsageError


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8. Raises FusioncError E13004 if that is not possible, UsageError for a model's name."""
    if path.suffix.lower() == ".onnx":
        hint = "give a name that ends in .json"
        raise UsageError("text would be written where a model belongs", where=str(path), hint=hint, code="E10001")
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        what = f"file {path} cannot be written: {error.strerror}"
        raise FusioncError(what, hint="choose a folder that exists and can be written", code="E13004") from error
