"""Processes that are pinned to cores of this machine.

A job is two processes, and mostly only one of them works. If both may use any core, the system
often wakes one on the core of another job while its own is idle, which costs many small models 5 to
8 % of their time. So each job is pinned to a core of its own if there are as many jobs as cores, as
long as models are waiting.
"""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from fusionc.runtime.cores import core_numbers


def cores_of_jobs(jobs: int) -> list[Set[int]]:
    """The core of each job; none if there are not as many jobs as cores, or if processes cannot be
    pinned.
    """
    numbers = sorted(core_numbers())
    return [{number} for number in numbers] if 1 < len(numbers) == jobs and can_pin() else []


def can_pin() -> bool:
    """Whether this system can pin processes to cores and list the processes that one has
    started.
    """
    return hasattr(os, "sched_setaffinity") and Path("/proc/thread-self/children").is_file()


def pin(process: int, cores: Set[int]) -> None:
    """Let a process use these cores only, with its threads and everything that it has started or
    starts later.
    """
    pinned: set[str] = set()
    with suppress(OSError):  # the process has ended
        # a process that was not pinned yet may have started more
        while new := set(os.listdir(_threads(process))) - pinned:
            for thread in new:
                with suppress(OSError):  # the thread has ended
                    os.sched_setaffinity(int(thread), cores)
            pinned |= new
    for thread in pinned:
        with suppress(OSError):
            for child in (_threads(process) / thread / "children").read_text().split():
                pin(int(child), cores)


def _threads(process: int) -> Path:
    return Path(f"/proc/{process}/task")
