"""Hashes of the contents of files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def content_of(file: Path) -> str:
    """The hash of the content of a file. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_if_any(file: Path) -> str:
    """The hash of the content of a file. "" if the file cannot be read."""
    try:
        return content_of(file)
    except (OSError, ValueError):  # ValueError: the path is not a valid file name
        return ""
