"""Limits of the system that an error message names, and what to do about them. Such an error is not
onnxruntime's fault.
"""

from __future__ import annotations

import errno
import os

_OF_FILES = {  # in this order, as the text of the first one begins with that of the second
    errno.ENFILE: (
        "too many files are open in the whole system: end other programs, or raise fs.file-max"
    ),
    errno.EMFILE: (
        "this process may have {limit} files open at once: allow more, with ulimit -n 1024, say"
    ),
}
OF_MEMORY = (
    "free some memory: end other programs, raise ulimit -v or the limit of the container, or use "
    "a machine with more; "
    "smaller sizes in --verify_shape, or --no-verify, need less"
)
_HUNGER = (
    os.strerror(errno.ENOMEM),
    "MemoryError",
    "bad_alloc",
    "out of memory",
    "Memory allocation",
)
# with nothing after it; or another reason why a library cannot be loaded
_UNMAPPED = "failed to map segment from shared object"
_OF_PROCESSES = "this user may have no more processes: end others, or allow more with ulimit -u"


def hint_for_limit(said: str, *, is_start: bool = False) -> str:
    """What to do about an error with this text; "" if it does not name a limit. `is_start`: the
    error was one of starting a process.
    """
    for number, hint in _OF_FILES.items():
        if os.strerror(number) in said:
            return hint.format(limit=_open_files())
    if any(word in said for word in _HUNGER) or said.endswith(_UNMAPPED):
        return OF_MEMORY
    return _OF_PROCESSES if is_start and os.strerror(errno.EAGAIN) in said else ""


def _open_files() -> str:
    """The limit of open files, as far as the system has one."""
    try:
        import resource
    except ImportError:
        return "only so many"
    return f"at most {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}"
