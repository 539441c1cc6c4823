"""What a file holds, as a hash."""

from __future__ import annotations

import hashlib
from pathlib import Path


def content_of(file: Path) -> str:
    """A hash of what a file holds. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def content_if_any(file: Path) -> str:
    """The same, "" where nobody can read the file."""
    try:
        return content_of(file)
    except (OSError, ValueError):  # ValueError: no name of a file
        return ""
