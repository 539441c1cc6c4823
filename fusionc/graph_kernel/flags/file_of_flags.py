"""Two other sources of the text of --graph_kernel_flags: an environment variable, and a file.

No large module is imported here: the code that starts processes imports this file first.
"""

from __future__ import annotations

import os
import re

from fusionc.errors import UsageError

VARIABLE = "MS_DEV_GRAPH_KERNEL_FLAGS"
_FILE = re.compile(r"(?:^|(?<= ))--path=([^= ]+)(?= |$)")


def file_of_flags(text: str | None) -> str | None:
    """The file that `text` names with --path, or None. The flags in this file replace all of
    `text`.
    """
    found = _FILE.search(text or "")
    return found and found[1]


def with_absolute_file(text: str) -> str:
    """The same text, but the path of its file of flags is absolute, for a process that works in
    another folder.

    Raises UsageError if the path contains a blank or "=", because either would end the flag.
    """
    named = file_of_flags(text)
    if named is None:
        return text
    path = os.path.abspath(named)
    if re.search("[ =]", path):
        hint = "write its content as flags, or move it to a path without blanks and ="
        raise UsageError(
            "for several processes, the path of a file of flags cannot contain a blank or =",
            where=path,
            hint=hint,
            code="E10001",
        )
    return _FILE.sub(lambda _: f"--path={path}", text, count=1)
