"""How much memory a process may take, so that hunger is an exception and not the end of some
process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from fusionc.runtime.control_groups import groups_around, lines

_KEPT_FREE = 1 / 16  # of the available memory: for the process that waits, and for others
_PERTURB = -6  # M_PERTURB of glibc's mallopt, which fills with the complement of a byte
_FILES = {  # of a control group: its limit, what it uses, and what of that are files that may go
    1: (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
    2: ("memory.max", "memory.current", ("inactive_file", "active_file")),
}
_AGAIN = 1.0  # seconds after which the system is asked again
_last: tuple[float, int | None] = (-_AGAIN, None)


def available() -> int | None:
    """Bytes that are still free on this machine and in the control groups of this process; None if
    the system does not say.
    """
    known = [*_machine_memory(), *_group_memory()]
    return int(max(min(known), 0) * (1 - _KEPT_FREE)) if known else None


def limit_growth(most: int | None = None) -> int | None:
    """Let this process take what is available from now on, at most `most` bytes; returns that
    number.

    Only memory of its own counts, no file that is mapped. Without effect (None) on systems that
    have no such limit.
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
    """Let all memory that the C library hands out hold this byte at first, if it can; 0 leaves it
    as it is.
    """
    with suppress(OSError, AttributeError, TypeError):  # Windows, macOS and musl
        ctypes.CDLL(None).mallopt(_PERTURB, byte and byte ^ 0xFF)


def _recently_available() -> int | None:
    """The memory that was available within the last second: many steps are much shorter than the
    question.
    """
    global _last
    if monotonic() - _last[0] >= _AGAIN:
        _last = monotonic(), available()
    return _last[1]


def _machine_memory() -> Iterator[int]:
    for line in lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _group_memory() -> Iterator[int]:
    """The rest of the limit of each control group around this process."""
    for version, group in groups_around("memory"):
        yield from _left(group, *_FILES[version])


def _left(group: Path, most: str, used: str, caches: tuple[str, ...]) -> Iterator[int]:
    numbers = [next(lines(group / file), "") for file in (most, used)]
    if not all(number.isdigit() for number in numbers):  # no such group here, or no limit
        return
    cached = [
        int(line.split()[1]) for line in lines(group / "memory.stat") if line.split()[0] in caches
    ]
    yield int(numbers[0]) - int(numbers[1]) + sum(cached)
