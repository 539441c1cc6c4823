"""The content of a file, as a hash."""

from __future__ import annotations

import hashlib
from pathlib import Path


def content_of(file: Path) -> str:
    """The hash of the content of a file. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def content_if_any(file: Path) -> str:
    """The hash of the content of a file; "" if the file cannot be read."""
    try:
        return content_of(file)
    except (OSError, ValueError):  # ValueError: the path cannot be the name of a file
        return ""
