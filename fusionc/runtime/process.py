"""The process that runs onnxruntime, as its caller sees it: one for each thread that needs one.

It is started early, so that it imports onnxruntime while the caller loads a model, and serves all
conversions of its thread. It ends with its caller; one that crashed, or that was ended because it
took too long, is replaced.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, Any, TypeVar

from fusionc.errors import FusioncError
from fusionc.runtime import wire, worker
from fusionc.runtime.blas import ONE_THREAD
from fusionc.runtime.printed_file import forget, last_words, printed_file
from fusionc.runtime.processor_time import OUT_OF_TIME
from fusionc.runtime.run_errors import Crashed, Killed, OutOfMemory, Overdue, RunError
from fusionc.runtime.system_limits import hint_for_limit

STEP_SECONDS = 300.0  # for making a session, or running a model once
_START_SECONDS = 120.0
_Result = TypeVar("_Result")


class _State(threading.local):
    process: Process | None = None
    is_lent = False  # it is another thread's, and there is no other one for this thread
    seconds = STEP_SECONDS


_state = _State()
_all: weakref.WeakSet[Process] = weakref.WeakSet()


def start() -> Process:
    """The process of this thread; a new one where there is none, which makes itself ready
    meanwhile.
    """
    if _state.process is None or not _state.process.is_alive:
        if _state.is_lent:
            raise RunError("the process of another thread has ended")
        _state.process = Process()
    return _state.process


def current() -> Process | None:
    """The process of this thread, if there is one and nobody has ended it."""
    return _state.process if _state.process is not None and _state.process.is_alive else None


@contextmanager
def step_limit(seconds: float | None) -> Iterator[None]:
    """Limit every step inside: making a session, or running a model once. None is the default, 0 no
    limit.
    """
    before = _state.seconds
    _state.seconds = STEP_SECONDS if seconds is None else seconds
    try:
        yield
    finally:
        _state.seconds = before


@contextmanager
def lent(process: Process) -> Iterator[None]:
    """Let this thread ask the process of another one, in turn with that; if it ends, every request
    is a RunError.
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
    """What a method of `sessions.Sessions` returns in the process of this thread, in at most `most`
    seconds, if that is less than the limit of a step. `only` that process has what is asked for.

    Raises RunError where onnxruntime fails: Crashed where it ends the process, Overdue where it
    takes too long, OutOfMemory where there is not enough.
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
    """What `attempt` returns. A crash, or a lack of memory, counts only where it happens again in a
    new process, which holds nothing of what others did before.
    """
    try:
        return attempt()
    except (Crashed, OutOfMemory):
        if (process := current()) is not None:
            with process.turn:  # another thread may be waiting for an answer of it
                process.end()
    return attempt()


class Process:
    """One such process."""

    def __init__(self) -> None:
        self._is_ready = False
        self.turn = threading.RLock()  # to ask it, whose requests are of two threads
        # With the caller's paths it finds what the caller has found, behind the standard modules.
        paths = [*filter(None, sys.path), str(Path(__file__).parents[2])]
        command = [
            sys.executable or "",
            "-P",
            "-S",
            str(Path(worker.__file__).resolve()),
            *map(os.path.abspath, paths),
        ]
        environment = dict((ONE_THREAD, *os.environ.items()))
        environment.pop("PYTHONPATH", None)
        pipe = subprocess.PIPE
        with ExitStack() as failed:
            try:
                self._printed = printed_file()
                failed.callback(os.close, self._printed)
                self._child = subprocess.Popen(
                    command,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=self._printed,
                    cwd=os.sep,
                    bufsize=0,
                    env=environment,
                )
            except (OSError, ValueError) as error:
                raise _unstartable(str(error)) from error
            failed.pop_all()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._pipes: tuple[IO[bytes], IO[bytes]] = self._child.stdin, self._child.stdout
        self._out = self._child.stdin.fileno()
        self._in = self._child.stdout.fileno()
        # a process that does not read must not hold up its caller
        os.set_blocking(self._out, False)
        wire.widen(self._out, self._in)
        self._end = weakref.finalize(self, _end, self._child, self._pipes, self._printed)
        _all.add(self)

    @property
    def id(self) -> int:
        """The system's number of it."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Whether nobody has ended it; it may have ended by itself."""
        return self._end.alive

    def ask(self, name: str, arguments: Sequence[Any], seconds: float | None) -> Any:
        """What `request` does."""
        try:
            if not self.begins():
                raise _unstartable(
                    "something kills it, as a system does that has run out of memory"
                )
            deadline = None if seconds is None else monotonic() + seconds
            forget(self._printed)
            wire.send(self._out, (name, arguments), deadline)
            kind, value = wire.receive(self._in, deadline, _loads)
        except TimeoutError as error:
            self.end()
            raise Overdue(
                f"it takes longer than {seconds:g} s, the limit of one step (--timeout)"
            ) from error
        except (EOFError, BrokenPipeError) as error:
            raise self._what_ended_it() from error
        except BaseException:  # Ctrl-C, say: an answer to nobody's question may come
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
        """Whether it can be asked, when it is ready; it cannot where something has killed it
        meanwhile.

        Raises FusioncError where it cannot be started.
        """
        if self._is_ready:
            return True
        try:
            kind, value = wire.receive(self._in, monotonic() + _START_SECONDS, _loads)
        except (EOFError, TimeoutError) as error:
            said = last_words(self._printed) or "it says nothing"
            was_killed = isinstance(error, EOFError) and self._exit_code() < 0
            self.end()
            if was_killed:
                return False
            raise _unstartable(said) from error
        if kind == worker.BROKEN:
            self.end()
            raise _unstartable(_one_line(value))
        self._is_ready = True
        return True

    def kill(self) -> None:
        """Let the thread that waits for an answer see that there is none."""
        self._child.kill()

    def end(self) -> None:
        """End it, whatever it does; the next request of this thread starts another one."""
        if _state.process is self:
            _state.process = None
        self._end()

    def leave(self) -> None:
        """In a process that was forked from the caller: it is the caller's, so forget it."""
        if self._end.detach() is not None:
            for pipe in self._pipes:
                pipe.close()

    def _exit_code(self) -> int:
        """That of the process, whose pipes are closed; less than 0 is a signal."""
        try:
            return self._child.wait(10)
        except subprocess.TimeoutExpired:  # something in it has closed them, and it goes on
            return 0

    def _what_ended_it(self) -> RunError:
        code = self._exit_code()
        said = last_words(self._printed)
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


def _end(child: subprocess.Popen[bytes], pipes: Sequence[IO[bytes]], printed: int) -> None:
    child.kill()
    child.wait()
    for pipe in pipes:
        pipe.close()
    os.close(printed)


def _unstartable(said: str) -> FusioncError:
    hint = hint_for_limit(said, is_start=True) or (
        "check that this Python can import onnxruntime; install it again: pip install onnxruntime"
    )
    what = f"the process that runs onnxruntime cannot be started: {said}"
    return FusioncError(what, where=sys.executable, hint=hint)


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


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 400 else text[:397] + "..."


def _after_fork() -> None:
    _state.process = None
    for process in list(_all):
        process.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
