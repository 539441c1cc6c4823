"""A converting process as its caller sees it. Where it crashes, that is the end of one model and
not of the others.

Threads of the command use `convert`, and workers of a cluster do: each call has a process to
itself, which stays for the next one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Set
from time import monotonic
from typing import Any

from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.converting_program import CHECK, CONVERT, GRACE
from fusionc.batch.outcome import CRASHED, Outcome, outcome_of
from fusionc.batch.pinned_processes import cores_of_jobs, pin
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE, with_absolute_file
from fusionc.runtime.child_process import ChildProcess
from fusionc.runtime.cores import core_numbers

_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from fusionc.batch.converting_program import main; main()"
)
_TOGETHER = {  # variables that would bring the logs and results of all models to one place
    f"{owner}_{name}"
    for owner in ("FUSIONC", "ASCEND")
    for name in ("WORK_PATH", "LOG_PRINT_TO_STDOUT", "SLOG_PRINT_TO_STDOUT")
}
_lock = threading.Lock()
_busy: dict[_ConvertingProcess, str] = {}  # and for which run
_idle: list[_ConvertingProcess] = []
# of each process, as long as all have work; none where they are not pinned
_cores: list[Set[int]] = []
_over: set[str] = set()  # the runs of which no model is begun any more


def convert(task: ConversionTask) -> Outcome:
    """Convert a model in a process that nobody else uses meanwhile."""
    try:
        answer = _asked(CONVERT, task, task.run)
    except _EndedError as error:
        hint = "convert this model alone to see more; --resume tries it again"
        told = FusioncError(
            f"the process that converts it has ended: {error}", where=str(task.source), hint=hint
        )
        return Outcome(task.name, str(task.source), CRASHED, error=str(told))
    return outcome_of(answer)


def check(arguments: Mapping[str, Any], run: str) -> list[str]:
    """What the user should know of options for all models. Raises FusioncError where they are
    wrong.
    """
    try:
        answer = _asked(CHECK, arguments, run)
    except _EndedError as error:
        hint = "check that this Python can import onnx and onnxruntime, and --custom_passes"
        raise FusioncError(
            f"a converting process ends at once: {error}", where=sys.executable, hint=hint
        ) from error
    if "error" in answer:
        raise _Told(**answer["error"])
    return list(answer["notices"])


def start_processes(count: int, *, are_pinned: bool) -> None:
    """Have so many ready: they import what they need all at once, while somebody asks the first of
    them. If they `are_pinned`, each has a core of its own until `unpin_processes`, where there are
    as many cores.
    """
    with _lock:
        _cores[:] = cores_of_jobs(count) if are_pinned else []
        for _ in range(count):
            _idle.append(_new_process())


def unpin_processes() -> None:
    """Let all use any core again."""
    with _lock:
        _cores.clear()
        for process in (*_busy, *_idle):
            if process.cores is not None:
                process.pin(core_numbers())


def end_processes(run: str) -> None:
    """End the processes of a run, whatever they do, with nothing half written, and those that are
    idle. This run begins no model any more; what others convert here goes on.
    """
    with _lock:
        _over.add(run)
        _cores.clear()
        ending = [*_idle, *(process for process, of in _busy.items() if of == run)]
        _idle.clear()
        for process in ending:
            # so that no thread whose answer comes meanwhile keeps it for the next model
            _busy.pop(process, None)
    for process in ending:
        process.begin_to_end()
    deadline = monotonic() + GRACE + 1
    for process in ending:
        process.kill_at(deadline)


class _EndedError(Exception):
    """How it ended."""


class _Told(UsageError):
    """An error of another process, that has its text."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.text


def _asked(name: str, argument: Any, run: str) -> dict[str, Any]:
    with _lock:
        if run in _over:
            raise _EndedError("the run is over")
        # the system may have ended one in between
        living = [process for process in _idle if process.is_running]
        _idle[:] = living
        process = _idle.pop() if _idle else _new_process()
        _busy[process] = run
    answer = process.ask(name, argument)
    with _lock:
        if _busy.pop(process, None) is not None:
            _idle.append(process)
    return answer


def _new_process() -> _ConvertingProcess:
    """Pinned to a core that no other one has, if they are pinned."""
    process = _ConvertingProcess()
    if _cores:
        taken = [other.cores for other in (*_busy, *_idle)]
        process.pin(min(_cores, key=taken.count))
    return process


class _ConvertingProcess(ChildProcess):
    cores: Set[int] | None = None  # to which it is pinned

    def __init__(self) -> None:
        environment = {name: text for name, text in os.environ.items() if name not in _TOGETHER}
        if VARIABLE in environment:
            environment[VARIABLE] = with_absolute_file(environment[VARIABLE])
        paths = map(os.path.abspath, filter(None, sys.path))
        command = [sys.executable, "-P", "-c", _START, *paths]
        # it removes what is half written when its requests end
        super().__init__(command, environment, is_killed=False)

    def ask(self, name: str, argument: Any) -> dict[str, Any]:
        """The answer. Raises _EndedError if the process ends instead."""
        try:
            self.send((name, argument))
            return dict(self.receive())
        except (EOFError, OSError, ValueError) as error:  # it ends, or another thread ends it
            self.begin_to_end()
            self.kill_at(monotonic() + GRACE + 1)
            raise _EndedError(self._how_it_ended()) from error

    def pin(self, cores: Set[int]) -> None:
        """Have it use these cores only, and what it starts."""
        self.cores = cores
        pin(self.id, cores)

    def begin_to_end(self) -> None:
        """Tell it that there are no more requests."""
        with _lock:
            _busy.pop(self, None)
        self.end_requests()

    def _how_it_ended(self) -> str:
        code = self.exit_code()
        if code == -signal.SIGKILL:
            return (
                "something has killed it, as systems do that have no memory left "
                "(fewer --jobs need less)"
            )
        how = (
            f"by exit code {code}" if code >= 0 else f"by signal {-code}, {signal.strsignal(-code)}"
        )
        words = self.last_words
        return f"{how}: {words}" if words else how
