"""The processors of this machine."""

from __future__ import annotations

import os
from collections.abc import Set


def cores() -> int:
    """How many processors this process may use."""
    return len(core_numbers()) or os.cpu_count() or 1


def core_numbers() -> Set[int]:
    """The numbers of the processors that this process may use; empty on systems that do not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else frozenset()
