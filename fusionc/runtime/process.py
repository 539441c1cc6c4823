"""The caller's side of the child process that runs onnxruntime. Each thread of the caller has its
own child process.

The child process is started early, so that it imports onnxruntime while the caller loads a model.
It serves all conversions of its thread, and ends with its caller. If it crashes, or if it is ended
because it took too long, a new process replaces it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from fusionc.errors import FusioncError
from fusionc.runtime import worker
from fusionc.runtime.blas import ONE_THREAD
from fusionc.runtime.child_process import ChildProcess
from fusionc.runtime.error_clause import error_clause
from fusionc.runtime.processor_time import OUT_OF_TIME
from fusionc.runtime.run_errors import Crashed, Killed, OutOfMemory, Overdue, RunError
from fusionc.runtime.system_limits import hint_for_limit

STEP_SECONDS = 300.0  # the default limit of a step: creating a session, or running a model once
_START_SECONDS = 120.0
_Result = TypeVar("_Result")


class _State(threading.local):
    process: Process | None = None
    is_lent = False  # whether the process belongs to another thread, which alone may replace it
    seconds = STEP_SECONDS


_state = _State()
_all: weakref.WeakSet[Process] = weakref.WeakSet()


def start() -> Process:
    """The process of this thread. If it does not exist, one is started in the background."""
    if _state.process is None or not _state.process.is_alive:
        if _state.is_lent:
            raise RunError("the process of another thread has ended")
        _state.process = Process()
    return _state.process


def current() -> Process | None:
    """The process of this thread. None if it does not exist or has been ended."""
    return _state.process if _state.process is not None and _state.process.is_alive else None


@contextmanager
def step_limit(seconds: float | None) -> Iterator[None]:
    """A context manager that limits the seconds of each step: creating a session, or running a
    model once. None means the default, and 0 means no limit.
    """
    before = _state.seconds
    _state.seconds = STEP_SECONDS if seconds is None else seconds
    try:
        yield
    finally:
        _state.seconds = before


@contextmanager
def lent(process: Process) -> Iterator[None]:
    """A context manager in which this thread uses the process of another thread. After this process
    has ended, every request raises RunError.
    """
    _state.process = process
    _state.is_lent = True
    try:
        yield
    finally:
        _state.process = None
        _state.is_lent = False


def longest_step() -> float | None:
    """The limit of a step of this thread in seconds. None means no limit."""
    return _state.seconds or None


def request(
    name: str, *arguments: Any, most: float | None = None, only: Process | None = None
) -> Any:
    """Call a method of `sessions.Sessions` in the process of this thread, and return its result.

    The call may take as long as one step (see `step_limit`), and at most `most` seconds. `only` is
    the process that must answer: if another process has replaced it, Crashed is raised.

    Raises RunError if onnxruntime fails. The error is Crashed if the process ends, Overdue if the
    call takes too long, and OutOfMemory if the memory is not sufficient.
    """
    limits = [seconds for seconds in (most, longest_step()) if seconds]
    while True:
        with (process := start()).turn:
            if only is not None and only is not process:
                raise Crashed("another thread has ended the process")
            # not alive: another thread has ended the process while this one waited for its turn
            if process.is_alive:
                process.begins()  # a process that was killed during its start is replaced once
                return start().ask(name, arguments, min(limits, default=None))


def insist(attempt: Callable[[], _Result]) -> _Result:
    """The result of `attempt`. After a crash or a lack of memory, `attempt` is called once more
    with a new process, in which earlier requests do not occupy memory.
    """
    try:
        return attempt()
    except (Crashed, OutOfMemory):
        if (process := current()) is not None:
            with process.turn:  # another thread may be waiting for an answer of this process
                process.end()
    return attempt()


class Process(ChildProcess):
    """A process that runs onnxruntime."""

    def __init__(self) -> None:
        self._is_ready = False
        self.turn = threading.RLock()  # held during a request, because two threads may ask
        # The process gets the caller's module paths, after those of the standard modules.
        paths = [*filter(None, sys.path), str(Path(__file__).parents[2])]
        program = str(Path(worker.__file__).resolve())
        command = [sys.executable or "", "-P", "-S", program, *map(os.path.abspath, paths)]
        environment = dict((ONE_THREAD, *os.environ.items()))
        environment.pop("PYTHONPATH", None)
        try:
            super().__init__(command, environment, folder=os.sep)
        except (OSError, ValueError) as error:
            raise _unstartable(str(error)) from error
        _all.add(self)

    def ask(self, name: str, arguments: Sequence[Any], seconds: float | None) -> Any:
        """Send a request and return the answer. Raises the errors of `request`."""
        try:
            if not self.begins():
                raise _unstartable(
                    "the process of onnxruntime is killed, probably because the system has run out "
                    "of memory"
                )
            deadline = None if seconds is None else monotonic() + seconds
            self.send((name, arguments), deadline)
            kind, value = self.receive(deadline)
        except TimeoutError as error:
            self.end()
            raise Overdue(
                f"it takes longer than {seconds:g} s, the limit of one step (--timeout)"
            ) from error
        except (EOFError, BrokenPipeError) as error:
            raise self._what_ended_it() from error
        # On an interruption such as Ctrl-C the process is ended, because its late answer would
        # otherwise count as the answer to the next request.
        except BaseException:
            self.end()
            raise
        if kind == worker.DONE:
            return value
        raise _error(kind, value)

    def begins(self) -> bool:
        """Wait until the process is ready. False if it was killed in the meantime.

        Raises FusioncError if the process cannot be started.
        """
        if self._is_ready:
            return True
        try:
            kind, value = self.receive(monotonic() + _START_SECONDS)
        except (EOFError, TimeoutError) as error:
            message = self.last_words or "it prints nothing"
            was_killed = isinstance(error, EOFError) and self.exit_code() < 0
            self.end()
            if was_killed:
                return False
            raise _unstartable(message) from error
        if kind == worker.BROKEN:
            self.end()
            raise _unstartable(_one_line(value))
        self._is_ready = True
        return True

    def end(self) -> None:
        """End the process. The next request of this thread starts a new process."""
        if _state.process is self:
            _state.process = None
        self.close()

    def _what_ended_it(self) -> RunError:
        code = self.exit_code()
        message = self.last_words
        self.end()
        if "bad_alloc" in message:
            return OutOfMemory(message)
        if -code == signal.SIGKILL:
            return Killed()
        if -code == OUT_OF_TIME:
            return Overdue("it takes more processor time than allowed")
        try:
            how = signal.Signals(-code).name
        except ValueError:
            how = f"exit code {code}"
        return Crashed(", ".join(filter(None, (f"it ends the process ({how})", message))))


def _error(kind: str, message: str) -> RunError:
    """The error for an answer of this kind of the process."""
    text = _one_line(message)
    if kind == worker.HUNGRY:
        return OutOfMemory(text or "there is not enough memory")
    error = RunError(text)
    error.lacks_kernel = "NOT_IMPLEMENTED" in message
    return error


def _unstartable(reason: str) -> FusioncError:
    hint = hint_for_limit(reason, is_start=True) or (
        "check that this Python can import onnxruntime; install it again: pip install onnxruntime"
    )
    what = f"the process that runs onnxruntime cannot be started: {reason}"
    return FusioncError(what, where=sys.executable, hint=hint)


def _one_line(text: str) -> str:
    text = error_clause(text)
    return text if len(text) <= 400 else text[:397] + "..."


def _after_fork() -> None:
    _state.process = None
    for process in list(_all):
        process.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
