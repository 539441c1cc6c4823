"""Sources of graph_kernel_flags other than the option: an environment variable, and a file.

Nothing large is imported here, because the code that starts processes needs it first.
"""

from __future__ import annotations

import os
import re

from fusionc.errors import UsageError

VARIABLE = "MS_DEV_GRAPH_KERNEL_FLAGS"
_FILE = re.compile(r"(?:^|(?<= ))--path=([^= ]+)(?= |$)")


def file_of_flags(text: str | None) -> str | None:
    """The file that replaces the whole text, if it names one."""
    found = _FILE.search(text or "")
    return found and found[1]


def with_absolute_file(text: str) -> str:
    """The same flags, for a process that works in another folder.

    Raises UsageError if the path of that file has a blank or "=", which end a flag.
    """
    named = file_of_flags(text)
    if named is None:
        return text
    path = os.path.abspath(named)
    if re.search("[ =]", path):
        hint = "give what it says as flags, or move it to a folder without blanks and ="
        raise UsageError(
            "flags cannot name this file for several processes",
            where=path,
            hint=hint,
            code="E10001",
        )
    return _FILE.sub(lambda _: f"--path={path}", text, count=1)
