"""Read the text files that options on precision name."""

from __future__ import annotations

from pathlib import Path

from fusionc.errors import FusioncError, UsageError


def text_of(path: Path, option: str, form: str) -> str:
    """The text in the file of an option. `form` says how to write such a file. Raises UsageError if
    it is not a text file, and FusioncError if it cannot be read.
    """
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        if path.is_dir():
            problem = "is a folder"
        raise wrong_file(f"the file of {option} {problem}", path, form, "E10410")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        what = f"the file of {option} is not text in UTF-8"
        raise wrong_file(what, path, form) from error
    except OSError as error:
        what = f"the file of {option} cannot be read: {error.strerror}"
        hint = "check its permissions"
        raise FusioncError(what, where=str(path), hint=hint, code="E13003") from error


def wrong_file(what: str, path: Path, form: str, code: str = "E10001") -> UsageError:
    """The error for a file that cannot be understood."""
    return UsageError(what, where=str(path), hint=f"give {form}", code=code)
