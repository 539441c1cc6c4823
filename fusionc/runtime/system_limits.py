"""Recognize limits of the system in error messages, and give advice. Such an error is not
onnxruntime's fault.
"""

from __future__ import annotations

import errno
import os

# the text of the second error is the beginning of the text of the first, so the order matters
_FILE_HINTS = {
    errno.ENFILE: (
        "too many files are open in the whole system: end other programs, or raise fs.file-max"
    ),
    errno.EMFILE: (
        "this process may have {limit} files open at once: allow more, for example with "
        "ulimit -n 1024"
    ),
}
OF_MEMORY = (
    "free some memory: end other programs, raise ulimit -v or the limit of the container, or use "
    "a machine with more; "
    "smaller sizes in --verify_shape, or --no-verify, need less"
)
# parts of messages about a lack of memory
_MEMORY_ERRORS = (
    os.strerror(errno.ENOMEM),
    "MemoryError",
    "bad_alloc",
    "out of memory",
    "Memory allocation",
)
# the end of a message about a lack of memory; if text follows, the library has another problem
_UNMAPPED = "failed to map segment from shared object"
_PROCESS_HINT = (
    "this user may not start further processes: end others, or allow more with ulimit -u"
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
