"""What can go wrong in the process that runs onnxruntime."""

from __future__ import annotations


class RunError(Exception):
    """onnxruntime cannot load or run a model; the text is its reason on one line."""


class Crashed(RunError):
    """The process ended in the middle."""


class Overdue(RunError):
    """One step took longer than the limit; the process was ended."""


class OutOfMemory(RunError):
    """There was not enough memory for it."""
