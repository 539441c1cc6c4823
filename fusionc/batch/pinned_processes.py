"""Pin processes to cores of this machine.

For each job (one conversion at a time) there are two processes, and usually only one of them works.
If both may use any core, the system often wakes one of them on the busy core of another job,
although another core is idle. For many small models, this costs 5 to 8 % of the time. Therefore, if
there are as many jobs as cores, each job is pinned to its own core while models are waiting.
"""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from fusionc.runtime.cores import core_numbers


def cores_of_jobs(jobs: int) -> list[Set[int]]:
    """The core of each job. Empty if the number of jobs is not the number of cores, or if processes
    cannot be pinned.
    """
    numbers = sorted(core_numbers())
    return [{number} for number in numbers] if 1 < len(numbers) == jobs and can_pin() else []


def can_pin() -> bool:
    """Whether this system can pin processes to cores, and can list the child processes of a
    process.
    """
    return hasattr(os, "sched_setaffinity") and Path("/proc/thread-self/children").is_file()


def pin(process: int, cores: Set[int]) -> None:
    """Pin a process to these cores, with all its threads and child processes, including those that
    it starts later.
    """
    pinned: set[str] = set()
    with suppress(OSError):  # the process has ended
        # Repeat this: a thread that was not yet pinned may have started further threads.
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
