"""Processes that are pinned to cores of this machine.

A job is two processes, of which mostly one works: where both may go to any core, the system often
wakes one on the core of another job while its own is idle, which costs many small models 5 to 8 %
of their time. So each job is pinned to a core of its own where there are as many jobs as cores, as
long as models are waiting.
"""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from fusionc.runtime.cores import core_numbers


def cores_of_jobs(jobs: int) -> list[Set[int]]:
    """The core of each; none where there are not as many, or where processes cannot be pinned."""
    numbers = sorted(core_numbers())
    return [{number} for number in numbers] if 1 < len(numbers) == jobs and can_pin() else []


def can_pin() -> bool:
    """Whether this system pins processes to cores, and says which processes one has started."""
    return hasattr(os, "sched_setaffinity") and Path("/proc/thread-self/children").is_file()


def pin(process: int, cores: Set[int]) -> None:
    """Have a process use these cores only, with its threads, the processes that it has started, and
    whatever all these start later.
    """
    pinned: set[str] = set()
    with suppress(OSError):  # the process has ended
        # one that was not pinned yet may have started more
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
