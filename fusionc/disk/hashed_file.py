"""A file that is written from beginning to end while its hash is computed."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

PAGE = 4096  # bytes; offsets at page boundaries let a runtime map weights


class HashedFile:
    """Writes a file and computes the hash of its content."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Write these bytes."""
        self._file.write(data)
        self.hash.update(data)
        self.size += len(data)

    def align(self, step: int) -> int:
        """Fill up to a multiple of `step`, and return that offset."""
        self.write(bytes(-self.size % step))
        return self.size
