"""The first step of every program that a ChildProcess runs. It needs only the standard library."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def take_pipes() -> tuple[int, int]:
    """The file descriptors of the requests and the answers. From this call on, output to stdout
    goes to stderr, Ctrl-C is ignored, and a crash does not write a core file.

    Ctrl-C reaches both the caller and this program; the caller decides what to do.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.dup(0)
    answers = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return requests, answers
