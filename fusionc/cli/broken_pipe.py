"""A standard output that still accepts text after its reader has closed the pipe. Therefore
`fusionc convert … | head -1` still converts the model, and the exit code of fusionc says how that
ended.
"""

from __future__ import annotations

import os
from typing import Any, TextIO


class BrokenPipeSafeStream:
    """Writes to a stream while the stream has a reader, and afterwards to the null device."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text and return the number of its characters, even if they are dropped."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop_output()
            return len(text)

    def flush(self) -> None:
        """Flush the stream, if it still has a reader."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop_output()

    def _drop_output(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
