"""Limit the processor time of a process. Unlike elapsed time, processor time does not depend on
what other processes do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

OUT_OF_TIME = signal.SIGPROF  # the signal that ends a process at its limit


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """A context manager that ends this process if the block takes more than `seconds` of processor
    time, summed over all threads.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
