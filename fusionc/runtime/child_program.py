"""The start of every program that a ChildProcess runs. It needs the standard library only."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def take_pipes() -> tuple[int, int]:
    """The descriptors of its requests and its answers; what it prints goes to standard error.

    Ctrl-C reaches it too, but its caller decides what to do then. A crash leaves no core file.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.dup(0)
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return requests, answers
