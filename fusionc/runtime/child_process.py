"""A child process that runs a Python program and answers one request after the other. This file is
the caller's side.

Requests and answers are messages of `wire`. What the program prints goes to a file, because after a
crash the end of this file often gives the reason.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from time import monotonic
from typing import Any

from fusionc.runtime import wire
from fusionc.runtime.printed_file import forget, last_words, printed_file


class ChildProcess:
    """A child process. Raises OSError or ValueError if it cannot be started.

    When the object is garbage collected, the pipes are closed. If `is_killed`, the process is
    killed, too; otherwise the program must end by itself when its pipe of requests is closed.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: str | None = None,
        is_killed: bool = True,
    ) -> None:
        pipe = subprocess.PIPE
        with ExitStack() as cleanup:
            self._printed = printed_file()
            cleanup.callback(os.close, self._printed)
            self._child = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._printed,
                cwd=folder,
                bufsize=0,
                env=environment,
            )
            cleanup.pop_all()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._requests = self._child.stdin
        self._answers = self._child.stdout
        # the caller must not block if the process does not read its requests
        os.set_blocking(self._requests.fileno(), False)
        wire.widen(self._requests.fileno(), self._answers.fileno())
        self._sending = threading.Lock()
        self._end = weakref.finalize(self, _end, self._child, self._printed, is_killed)

    @property
    def id(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """False after the caller has ended the process. True does not mean that the process is
        still running.
        """
        return self._end.alive

    @property
    def is_running(self) -> bool:
        """Whether the process is still running."""
        return self._child.poll() is None

    @property
    def last_words(self) -> str:
        """The end of the output of the process, in one line."""
        return last_words(self._printed)

    def send(self, request: Any, deadline: float | None = None) -> None:
        """Send a request. Raises TimeoutError, BrokenPipeError, and ValueError if `end_requests`
        was called.
        """
        with self._sending:
            forget(self._printed)
            wire.send(self._requests.fileno(), request, deadline)

    def receive(self, deadline: float | None = None) -> Any:
        """Receive the next answer: arrays and plain data. Raises TimeoutError, or EOFError if the
        process ends.
        """
        return wire.receive(self._answers.fileno(), deadline, _loads)

    def end_requests(self) -> None:
        """Close the pipe of requests, which tells the process that no further requests follow."""
        with self._sending:
            self._requests.close()

    def exit_code(self, seconds: float = 10.0) -> int:
        """The exit code of the process; a negative number means a signal. 0 if the process has
        closed its pipes and is still running.
        """
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return 0

    def kill(self) -> None:
        """Kill the process. A thread that is waiting for its answer gets an EOFError."""
        self._child.kill()

    def kill_at(self, deadline: float) -> None:
        """Wait until the process ends. Kill it at the deadline (time.monotonic)."""
        try:
            self._child.wait(max(0.0, deadline - monotonic()))
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def close(self) -> None:
        """End the process and close its pipes."""
        self._end()

    def leave(self) -> None:
        """Close the pipes without ending the process. A fork of the caller does this, because the
        process belongs to the original caller.
        """
        if self._end.detach() is not None:
            self._requests.close()
            self._answers.close()


def _end(child: subprocess.Popen[bytes], printed: int, is_killed: bool) -> None:
    if is_killed:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    os.close(printed)


class _Unpickler(pickle.Unpickler):
    """Unpickles only arrays and plain data."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in (
            "_frombuffer",
            "_reconstruct",
            "ndarray",
            "dtype",
            "scalar",
        ):
            return super().find_class(module, name)
        if (module, name) == (wire.__name__, wire.Raw.__name__):
            return wire.Raw
        raise pickle.UnpicklingError(f"{module}.{name}")


def _loads(body: bytes, buffers: Sequence[Any]) -> Any:
    return _Unpickler(io.BytesIO(body), buffers=buffers).load()
