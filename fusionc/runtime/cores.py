"""The processors of this machine, and how much of them this process may take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from math import ceil

from fusionc.runtime.control_groups import groups_around, lines


def cores() -> int:
    """How many processors this process may use at a time: those that it may run on, and no more
    than the time that its control groups have in each moment.
    """
    own = len(core_numbers()) or os.cpu_count() or 1
    return max(1, min([own, *map(ceil, _quotas())]))


def core_numbers() -> Set[int]:
    """The numbers of the processors that this process may run on; empty on systems that do not
    say.
    """
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else frozenset()


def _quotas() -> Iterator[float]:
    """How many processors each of the groups around this process may keep busy, if that is
    limited.
    """
    for version, group in groups_around("cpu"):
        if version == 2:
            words = next(lines(group / "cpu.max"), "").split()
        else:
            words = [
                next(lines(group / name), "") for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            ]
        # "max" and -1 mean no limit
        if len(words) == 2 and all(map(str.isdigit, words)) and int(words[1]):
            yield int(words[0]) / int(words[1])
