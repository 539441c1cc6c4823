"""Sessions whose unwritten memory holds a known byte, so that outputs made of it can be told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fusionc.runtime.process import request
from fusionc.runtime.run_errors import RunError


@contextmanager
def filled_memory(byte: int) -> Iterator[None]:
    """For sessions that are opened inside; without effect where the C library cannot do that."""
    request("fill_memory", byte)
    try:
        yield
    finally:
        with suppress(RunError):
            request("fill_memory", 0)
