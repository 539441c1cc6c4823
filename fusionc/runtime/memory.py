"""Limit the memory of a process, so that a lack of memory raises an exception in this process.
Without a limit, the system might kill any process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from fusionc.runtime.control_groups import groups_around, lines

_KEPT_FREE = 1 / 16  # the part of the available memory that is kept for other processes
_PERTURB = -6  # M_PERTURB of glibc's mallopt, which fills memory with the complement of a byte
# By version of control groups: the file with the limit of a group, the file with its usage, and the
# entries of memory.stat that count cached files, which the system may drop.
_FILES = {
    1: (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
    2: ("memory.max", "memory.current", ("inactive_file", "active_file")),
}
_MAX_AGE = 1.0  # seconds for which the available memory is cached
_last: tuple[float, int | None] = (-_MAX_AGE, None)


def available() -> int | None:
    """The available memory in bytes, on this machine and in the control groups of this process.
    None if the system does not report it.
    """
    known = [*_machine_memory(), *_group_memory()]
    return int(max(min(known), 0) * (1 - _KEPT_FREE)) if known else None


def limit_growth(most: int | None = None) -> int | None:
    """Limit the memory that this process may take in addition to the memory in use: to the
    available memory, and to `most` bytes. Return this limit.

    Mapped files do not count. If the system does not offer such a limit, nothing happens, and None
    is returned.
    """
    try:
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError):
        return None
    growth = min((size for size in (_recently_available(), most) if size is not None), default=None)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = hard if growth is None else held + growth
    resource.setrlimit(
        resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )
    return growth


def fill_allocations(byte: int) -> None:
    """From now on, fill all memory that the C library allocates with this byte, if the library can
    do that. 0 ends the filling.
    """
    with suppress(OSError, AttributeError, TypeError):  # Windows, macOS and musl
        ctypes.CDLL(None).mallopt(_PERTURB, byte and byte ^ 0xFF)


def _recently_available() -> int | None:
    """The available memory, cached for a second, because asking the system takes much longer than
    many steps do.
    """
    global _last
    if monotonic() - _last[0] >= _MAX_AGE:
        _last = monotonic(), available()
    return _last[1]


def _machine_memory() -> Iterator[int]:
    for line in lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _group_memory() -> Iterator[int]:
    """The memory that each control group of this process may still use."""
    for version, group in groups_around("memory"):
        yield from _left(group, *_FILES[version])


def _left(group: Path, most: str, used: str, caches: tuple[str, ...]) -> Iterator[int]:
    numbers = [next(lines(group / file), "") for file in (most, used)]
    if not all(number.isdigit() for number in numbers):  # no such control group, or no limit
        return
    cached = [
        int(line.split()[1]) for line in lines(group / "memory.stat") if line.split()[0] in caches
    ]
    yield int(numbers[0]) - int(numbers[1]) + sum(cached)
