"""Read the text file that an option names."""

from __future__ import annotations

from pathlib import Path

from fusionc.errors import FusioncError, UsageError


def option_text(path: Path, option: str, hint: str) -> str:
    """The text of the file. Raises UsageError with this `hint` if the path is not a text file, and
    FusioncError if the file cannot be read.
    """
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        if path.is_dir():
            problem = "is a folder"
        what = f"the file of {option} {problem}"
        raise UsageError(what, where=str(path), hint=hint, code="E10410")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        what = f"the file of {option} is not text in UTF-8"
        raise UsageError(what, where=str(path), hint=hint, code="E10001") from error
    except OSError as error:
        what = f"the file of {option} cannot be read: {error.strerror}"
        raise FusioncError(
            what, where=str(path), hint="check its permissions", code="E13003"
        ) from error


def wrong_file(what: str, path: Path, form: str) -> UsageError:
    """The error for a file that is not understood. `form` says what the file should be."""
    return UsageError(what, where=str(path), hint=f"give {form}", code="E10001")
