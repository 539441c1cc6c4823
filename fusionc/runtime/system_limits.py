"""Recognize errors that a limit of the system causes, by their messages, and give advice. Such an
error is not onnxruntime's fault.
"""

from __future__ import annotations

import errno
import os

# the order matters, because the text of the second error is the beginning of the text of the first
_FILE_HINTS = {
    errno.ENFILE: (
        "too many files are open on this machine: end other programs, or raise fs.file-max"
    ),
    errno.EMFILE: (
        "this process may have {limit} files open at once: allow more, for example with "
        "ulimit -n 1024"
    ),
}
OF_MEMORY = (
    "free some memory: end other programs, raise ulimit -v or the limit of the container, or use "
    "a machine with more memory; "
    "with smaller sizes in --verify_shape, or with --no-verify, fusionc needs less memory"
)
# parts of messages about a lack of memory
_MEMORY_ERRORS = (
    os.strerror(errno.ENOMEM),
    "MemoryError",
    "bad_alloc",
    "out of memory",
    "Memory allocation",
)
# A message that ends with these words means a lack of memory. If more text follows, the library has
# another problem.
_UNMAPPED = "failed to map segment from shared object"
_PROCESS_HINT = (
    "this user may not start more processes: end other processes, or allow more with ulimit -u"
)


def hint_for_limit(message: str, *, is_start: bool = False) -> str:
    """Advice for an error with this message. "" if the message does not name a limit. `is_start`
    says that the error occurred when a process was started.
    """
    for number, hint in _FILE_HINTS.items():
        if os.strerror(number) in message:
            return hint.format(limit=_open_files())
    if any(word in message for word in _MEMORY_ERRORS) or message.endswith(_UNMAPPED):
        return OF_MEMORY
    return _PROCESS_HINT if is_start and os.strerror(errno.EAGAIN) in message else ""


def _open_files() -> str:
    """The limit of open files in words."""
    try:
        import resource
    except ImportError:
        return "only a limited number of"
    return f"at most {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}"
