"""Two other sources of the text of --graph_kernel_flags: an environment variable, and a file.

Nothing large is imported here, because the code that starts processes needs it first.
"""

from __future__ import annotations

import os
import re

from fusionc.errors import UsageError

VARIABLE = "MS_DEV_GRAPH_KERNEL_FLAGS"
_FILE = re.compile(r"(?:^|(?<= ))--path=([^= ]+)(?= |$)")


def file_of_flags(text: str | None) -> str | None:
    """The file that the text names with --path; its flags then replace the whole text."""
    found = _FILE.search(text or "")
    return found and found[1]


def with_absolute_file(text: str) -> str:
    """The text with an absolute path of its file, for a process that works in another folder.

    Raises UsageError if the path has a blank or "=", since either would end the flag.
    """
    named = file_of_flags(text)
    if named is None:
        return text
    path = os.path.abspath(named)
    if re.search("[ =]", path):
        hint = "give its content as flags, or move it to a path without blanks and ="
        raise UsageError(
            "for several processes, flags cannot name a file whose path has a blank or =",
            where=path,
            hint=hint,
            code="E10001",
        )
    return _FILE.sub(lambda _: f"--path={path}", text, count=1)
