"""Small files on the disk: each is written completely or not at all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from fusionc.disk.paths import DEVICE, PIPE, require_no_stream, stream_at


def replace_text(file: Path, text: str) -> None:
    """Write a file as UTF-8 next to its place, then rename it. Raises OSError, and leaves no
    temporary file.
    """
    replace_bytes(file, text.encode())


def write_where_told(file: Path, text: str) -> None:
    """Write to a place that the user names. A pipe or a device, such as a terminal, is written
    into; a file is written as `replace_text` does. Raises OSError.
    """
    if stream_at(file) in (PIPE, DEVICE):
        file.write_text(text, encoding="utf-8", newline="\n")
    else:
        replace_text(file, text)


def replace_bytes(file: Path, content: bytes) -> None:
    """Write a file as `replace_text` does, but never in the place of a pipe or a device."""
    require_no_stream(file)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:  # it still exists if writing failed or was interrupted
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
