"""The control groups around this process, which limit what it may take, in both versions of the
interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def groups_around(controller: str) -> Iterator[tuple[int, Path]]:
    """The folder of each group that may limit this ("memory", "cpu"), from the own one outwards,
    with the version of its interface.
    """
    for line in lines(OWN):
        _, controllers, name = line.split(":", 2)
        if not controllers:
            version = 2
            base = GROUPS
        elif controller in controllers.split(","):
            version = 1
            base = GROUPS / controller
        else:
            continue
        own = base / name.strip("/")
        for group in (own, *own.parents):
            yield version, group
            if group == base:
                break


def lines(file: Path) -> Iterator[str]:
    """The groups in a file; none if it cannot be read."""
    try:
        yield from file.read_text().splitlines()
    except (OSError, ValueError):
        return
