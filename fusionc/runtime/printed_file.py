"""An unnamed file for what a process prints. After a crash, the end of the text is read; the rest
is not needed.
"""

from __future__ import annotations

import os
import tempfile

_MAX_SIZE = 1 << 16  # bytes; a longer output is dropped


def printed_file() -> int:
    """The file descriptor of a new unnamed file, which the child process inherits."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fusionc")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def last_words(printed: int) -> str:
    """The end of the output, in one line."""
    size = os.fstat(printed).st_size
    text = os.pread(printed, 2000, max(0, size - 2000)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(c for c in " ".join(lines[-2:]) if c.isprintable())[-300:]


def forget(printed: int) -> None:
    """Drop the output if it is long."""
    if os.fstat(printed).st_size > _MAX_SIZE:
        os.ftruncate(printed, 0)
