"""The errors of the process that runs onnxruntime."""

from __future__ import annotations


class RunError(Exception):
    """onnxruntime cannot load or run a model. The text is the reason in one line.

    `lacks_kernel` says whether the reason is that onnxruntime lacks a kernel.
    """

    lacks_kernel = False


class Crashed(RunError):
    """The process ended during a request."""


class Overdue(RunError):
    """A step took longer than its limit, and the process was ended."""


class OutOfMemory(RunError):
    """The memory was not sufficient for a request."""


class Killed(OutOfMemory):
    """The process was killed during a request, probably because the system ran out of memory."""

    def __init__(self) -> None:
        super().__init__(
            "the process that runs onnxruntime is killed (SIGKILL), probably because the system "
            "has run out of memory; free some memory, or run smaller sizes (--verify_shape)"
        )
