"""Another Python program, as its caller sees it: it answers one request after the other.

Requests and answers are messages of `wire`. What the program prints goes to a file, whose end tells
why it has crashed.
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
    """One such process. Raises OSError or ValueError if it cannot be started.

    Once this is not used any more, the process is killed if it `is_killed` then; otherwise its
    requests end, which it notices.
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
        with ExitStack() as failed:
            self._printed = printed_file()
            failed.callback(os.close, self._printed)
            self._child = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._printed,
                cwd=folder,
                bufsize=0,
                env=environment,
            )
            failed.pop_all()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._requests = self._child.stdin
        self._answers = self._child.stdout
        # a process that does not read must not hold up its caller
        os.set_blocking(self._requests.fileno(), False)
        wire.widen(self._requests.fileno(), self._answers.fileno())
        self._sending = threading.Lock()
        self._end = weakref.finalize(self, _end, self._child, self._printed, is_killed)

    @property
    def id(self) -> int:
        """The system's number of the process."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """False once the caller has ended it; it may have ended by itself."""
        return self._end.alive

    @property
    def is_running(self) -> bool:
        """False once it has ended, in whatever way."""
        return self._child.poll() is None

    @property
    def last_words(self) -> str:
        """The end of its output, in one line."""
        return last_words(self._printed)

    def send(self, request: Any, deadline: float | None = None) -> None:
        """Ask it. Raises TimeoutError, BrokenPipeError, or ValueError after `end_requests`."""
        with self._sending:
            forget(self._printed)
            wire.send(self._requests.fileno(), request, deadline)

    def receive(self, deadline: float | None = None) -> Any:
        """Its next message: arrays and plain data. Raises TimeoutError, or EOFError if it ends."""
        return wire.receive(self._answers.fileno(), deadline, _loads)

    def end_requests(self) -> None:
        """Let it know that there are no more requests."""
        with self._sending:
            self._requests.close()

    def exit_code(self, seconds: float = 10.0) -> int:
        """How it ended, as subprocess has it: less than 0 is a signal. 0 if it has closed its
        pipes, and goes on.
        """
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return 0

    def kill(self) -> None:
        """End it now. A thread that waits for an answer gets an EOFError."""
        self._child.kill()

    def kill_at(self, deadline: float) -> None:
        """Wait for its end until the deadline (time.monotonic), then kill it."""
        try:
            self._child.wait(max(0.0, deadline - monotonic()))
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def close(self) -> None:
        """End it, whatever it does, and close its pipes."""
        self._end()

    def leave(self) -> None:
        """Close the pipes in a process that was forked from the caller, whose process this is."""
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
    """Makes arrays and plain data, and nothing else."""

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
