"""Errors of the process that runs onnxruntime."""

from __future__ import annotations


class RunError(Exception):
    """onnxruntime cannot load or run a model; the text is its reason on one line."""


class Crashed(RunError):
    """The process ended in the middle."""


class Overdue(RunError):
    """One step took longer than the limit; the process was ended."""


class OutOfMemory(RunError):
    """There was not enough memory for it."""


class Killed(OutOfMemory):
    """Something has killed the process in the middle, as systems do that have no memory left; so
    the text says.
    """

    def __init__(self) -> None:
        super().__init__(
            "something kills the process that runs onnxruntime (SIGKILL), as a system does that "
            "has run out of memory; "
            "free some, or let smaller sizes be run (--verify_shape)"
        )
