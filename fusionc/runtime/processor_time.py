"""How much processor time a process may take: unlike the time on a clock, other processes do not
change it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

OUT_OF_TIME = signal.SIGPROF  # ends a process that has taken more than it may


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """End this process, whatever it does, once the block has taken so many seconds, of all its
    threads together.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
