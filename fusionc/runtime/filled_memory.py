"""Fill the uninitialized memory of sessions with a known byte, so that outputs which depend on
uninitialized memory can be recognized.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fusionc.runtime.process import request
from fusionc.runtime.run_errors import RunError


@contextmanager
def filled_memory(byte: int) -> Iterator[None]:
    """A context manager that fills the uninitialized memory of sessions created inside it, if the C
    library supports that.
    """
    request("fill_memory", byte)
    try:
        yield
    finally:
        with suppress(RunError):
            request("fill_memory", 0)
