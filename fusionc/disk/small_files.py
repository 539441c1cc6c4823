"""Small files on the disk: all of one, or nothing."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Write a file as UTF-8 beside its place first, then rename it. Raises OSError, and leaves nothing behind."""
    replace_bytes(file, text.encode())


def replace_bytes(file: Path, content: bytes) -> None:
    """Write a file as replace_text does."""
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:  # it is there still where that failed or was interrupted
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
