"""Write a file from start to finish, and compute its hash at the same time."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

PAGE = 4096  # bytes; a runtime can map weights whose offsets are multiples of this


class HashedFile:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append these bytes."""
        self._file.write(data)
        self.hash.update(data)
        self.size += len(data)

    def align(self, step: int) -> int:
        """Pad the file to a multiple of `step` bytes, and return its new size."""
        self.write(bytes(-self.size % step))
        return self.size
