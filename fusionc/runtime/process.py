"""The process that runs onnxruntime, as its caller sees it: one for each thread that needs one.

It is started early, so that it imports onnxruntime while the caller loads a model, and serves all
conversions of its thread. It ends with its caller. One that has crashed, or was ended because it
took too long, is replaced.
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
from fusionc.runtime.processor_time import OUT_OF_TIME
from fusionc.runtime.run_errors import Crashed, Killed, OutOfMemory, Overdue, RunError
from fusionc.runtime.system_limits import hint_for_limit

STEP_SECONDS = 300.0  # for making a session, or running a model once
_START_SECONDS = 120.0
_Result = TypeVar("_Result")


class _State(threading.local):
    process: Process | None = None
    is_lent = False  # from another thread; this thread does not start one of its own
    seconds = STEP_SECONDS


_state = _State()
_all: weakref.WeakSet[Process] = weakref.WeakSet()


def start() -> Process:
    """The process of this thread; a new one if there is none, which starts in the background."""
    if _state.process is None or not _state.process.is_alive:
        if _state.is_lent:
            raise RunError("the process of another thread has ended")
        _state.process = Process()
    return _state.process


def current() -> Process | None:
    """The process of this thread; None if there is none or it has been ended."""
    return _state.process if _state.process is not None and _state.process.is_alive else None


@contextmanager
def step_limit(seconds: float | None) -> Iterator[None]:
    """Limit every step inside: making a session, or running a model once. None means the default, 0
    no limit.
    """
    before = _state.seconds
    _state.seconds = STEP_SECONDS if seconds is None else seconds
    try:
        yield
    finally:
        _state.seconds = before


@contextmanager
def lent(process: Process) -> Iterator[None]:
    """Let this thread take turns with another one in asking its process; if that ends, every
    request is a RunError.
    """
    _state.process = process
    _state.is_lent = True
    try:
        yield
    finally:
        _state.process = None
        _state.is_lent = False


def longest_step() -> float | None:
    """The limit of every step of this thread in seconds; None for no limit."""
    return _state.seconds or None


def request(
    name: str, *arguments: Any, most: float | None = None, only: Process | None = None
) -> Any:
    """What a method of `sessions.Sessions` returns in the process of this thread.

    It takes at most `most` seconds, if that is less than the limit of a step. `only`: the process
    that has what is asked for.

    Raises RunError if onnxruntime fails: Crashed if the process ends, Overdue if it takes too long,
    OutOfMemory if there is not enough memory.
    """
    limits = [seconds for seconds in (most, longest_step()) if seconds]
    while True:
        with (process := start()).turn:
            if only is not None and only is not process:
                raise Crashed("another thread has ended it")
            if process.is_alive:  # another thread may have ended it until it is this one's turn
                process.begins()  # one that is killed meanwhile is replaced, once
                return start().ask(name, arguments, min(limits, default=None))


def insist(attempt: Callable[[], _Result]) -> _Result:
    """What `attempt` returns. After a crash, or a lack of memory, it is tried once more in a new
    process, which holds nothing of earlier requests.
    """
    try:
        return attempt()
    except (Crashed, OutOfMemory):
        if (process := current()) is not None:
            with process.turn:  # another thread may be waiting for an answer of it
                process.end()
    return attempt()


class Process(ChildProcess):
    """One such process."""

    def __init__(self) -> None:
        self._is_ready = False
        self.turn = threading.RLock()  # to ask it: two threads may have requests
        # It finds what the caller has found, after the standard modules.
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
        """The answer to a request, as in `request`."""
        try:
            if not self.begins():
                raise _unstartable(
                    "something kills it, as a system does that has run out of memory"
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
        except BaseException:  # after Ctrl-C, say, the answer would be taken for the next one
            self.end()
            raise
        if kind == worker.DONE:
            return value
        text = _one_line(value)
        raise (
            OutOfMemory(text or "there is not enough memory")
            if kind == worker.HUNGRY
            else RunError(text)
        )

    def begins(self) -> bool:
        """Wait until it is ready; False if something has killed it meanwhile.

        Raises FusioncError if it cannot be started.
        """
        if self._is_ready:
            return True
        try:
            kind, value = self.receive(monotonic() + _START_SECONDS)
        except (EOFError, TimeoutError) as error:
            said = self.last_words or "it says nothing"
            was_killed = isinstance(error, EOFError) and self.exit_code() < 0
            self.end()
            if was_killed:
                return False
            raise _unstartable(said) from error
        if kind == worker.BROKEN:
            self.end()
            raise _unstartable(_one_line(value))
        self._is_ready = True
        return True

    def end(self) -> None:
        """End it, whatever it does; the next request of this thread starts another one."""
        if _state.process is self:
            _state.process = None
        self.close()

    def _what_ended_it(self) -> RunError:
        code = self.exit_code()
        said = self.last_words
        self.end()
        if "bad_alloc" in said:
            return OutOfMemory(said)
        if -code == signal.SIGKILL:
            return Killed()
        if -code == OUT_OF_TIME:
            return Overdue("it takes more processor time than it may")
        try:
            how = signal.Signals(-code).name
        except ValueError:
            how = f"exit code {code}"
        return Crashed(", ".join(filter(None, (f"it ends the process ({how})", said))))


def _unstartable(said: str) -> FusioncError:
    hint = hint_for_limit(said, is_start=True) or (
        "check that this Python can import onnxruntime; install it again: pip install onnxruntime"
    )
    what = f"the process that runs onnxruntime cannot be started: {said}"
    return FusioncError(what, where=sys.executable, hint=hint)


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 400 else text[:397] + "..."


def _after_fork() -> None:
    _state.process = None
    for process in list(_all):
        process.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
