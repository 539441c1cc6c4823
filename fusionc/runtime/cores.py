"""The number of processors that this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from math import ceil

from fusionc.runtime.control_groups import groups_around, lines


def cores() -> int:
    """The number of processors that this process may use at once, according to its processor
    affinity and the quotas of its control groups.
    """
    allowed = len(core_numbers()) or os.cpu_count() or 1
    return max(1, min([allowed, *map(ceil, _quotas())]))


def core_numbers() -> Set[int]:
    """The numbers of the processors on which this process may run. Empty on systems without
    processor affinity.
    """
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else frozenset()


def _quotas() -> Iterator[float]:
    """For each control group with a quota: the number of processors that it may keep busy."""
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
