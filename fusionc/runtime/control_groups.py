"""The control groups (cgroups) of this process, in both versions of Linux's interface. They limit
the memory and processor time of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def groups_around(controller: str) -> Iterator[tuple[int, Path]]:
    """The control groups that may limit this resource ("memory" or "cpu"), each as (version of the
    interface, folder). The process's own group comes first, and then the groups around it.
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
    """The lines of a file. Empty if it cannot be read."""
    try:
        yield from file.read_text().splitlines()
    except (OSError, ValueError):
        return
