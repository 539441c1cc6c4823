"""The cores of this machine, shared out among jobs.

A job is two processes, of which mostly one works: where both may go to any core, the system often wakes one on the core
of another job while its own is idle. So each job keeps to cores of its own, as long as there is work for all.
"""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress
from itertools import pairwise
from pathlib import Path


def core_shares(jobs: int) -> list[Set[int]]:
    """The cores of each; none where there are fewer than jobs, or where the system cannot tie a process to cores."""
    own = sorted(all_cores())
    bounds = [number * len(own) // jobs for number in range(jobs + 1)]
    shares = [frozenset(own[start:end]) for start, end in pairwise(bounds)]
    return list(shares) if all(shares) else []


def all_cores() -> Set[int]:
    """Those that this process may use, by their numbers; empty where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def tie(process: int, cores: Set[int]) -> None:
    """Have a process, its threads and the processes that it has started use these cores only, and what they start."""
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
            for child in (thread / "children").read_text().split():
                tie(int(child), cores)
