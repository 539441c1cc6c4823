"""Write small files, completely or not at all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from fusionc.disk.paths import DEVICE, PIPE, require_no_stream, stream_at


def replace_text(file: Path, text: str) -> None:
    """Write text as UTF-8 to a temporary file, and rename that to `file`. If writing fails, raises
    OSError and removes the temporary file.
    """
    replace_bytes(file, text.encode())


def write_where_told(file: Path, text: str) -> None:
    """Write text to a path that the user names. If there is a pipe or device, write to it directly;
    otherwise write a file with `replace_text`. Raises OSError.
    """
    if stream_at(file) in (PIPE, DEVICE):
        file.write_text(text, encoding="utf-8", newline="\n")
    else:
        replace_text(file, text)


def replace_bytes(file: Path, content: bytes) -> None:
    """Write bytes to a temporary file, and rename that to `file`. Raises OSError if writing fails,
    or if `file` is a pipe or a device.
    """
    require_no_stream(file)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:  # the temporary file still exists if writing failed or was interrupted
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
