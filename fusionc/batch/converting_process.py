"""The processes that convert models, as their caller sees them. If a process crashes, only one
model fails.

Threads of the command, and workers of a cluster, call `convert`. During a call, no other call uses
the same process. After the call, the process is kept for later calls.
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
# environment variables that would put the logs and results of all models into the same place
_SHARED_VARIABLES = {
    f"{owner}_{name}"
    for owner in ("FUSIONC", "ASCEND")
    for name in ("WORK_PATH", "LOG_PRINT_TO_STDOUT", "SLOG_PRINT_TO_STDOUT")
}
_lock = threading.Lock()
_busy: dict[_ConvertingProcess, str] = {}  # the run of each busy process
_idle: list[_ConvertingProcess] = []
# the cores to which processes are pinned; empty if processes are not pinned
_cores: list[Set[int]] = []
_ended_runs: set[str] = set()  # runs that may not start any more conversions


def convert(task: ConversionTask) -> Outcome:
    """Convert a model in a process that does nothing else at the same time. Blocks until it is
    done. A crash of the process becomes the outcome of the model.
    """
    try:
        answer = _answer(CONVERT, task, task.run)
    except _EndedError as error:
        hint = "to see more, convert this model alone; to try it again, use --resume"
        failure = FusioncError(
            f"the converting process has ended: {error}", where=str(task.source), hint=hint
        )
        return Outcome(task.name, str(task.source), CRASHED, error=str(failure))
    return outcome_of(answer)


def check(arguments: Mapping[str, Any], run: str) -> list[str]:
    """Check the options once for all models, in a converting process, and return the notices about
    them. Raises FusioncError if the options are wrong, or if the process ends.
    """
    try:
        answer = _answer(CHECK, arguments, run)
    except _EndedError as error:
        hint = (
            "check that this Python can import onnx and onnxruntime, and check the files of "
            "--custom_passes"
        )
        raise FusioncError(
            f"a converting process ended at once: {error}", where=sys.executable, hint=hint
        ) from error
    if "error" in answer:
        raise _ReportedError(**answer["error"])
    return list(answer["notices"])


def start_processes(count: int, *, are_pinned: bool) -> None:
    """Start `count` processes. They import their modules in parallel, while one of them answers
    `check`. If `are_pinned` and there are `count` cores, each process may use only its own core
    until `unpin_processes` is called.
    """
    with _lock:
        _cores[:] = cores_of_jobs(count) if are_pinned else []
        for _ in range(count):
            _idle.append(_new_process())


def unpin_processes() -> None:
    """Allow all processes to use any core again."""
    with _lock:
        _cores.clear()
        for process in (*_busy, *_idle):
            if process.cores is not None:
                process.pin(core_numbers())


def end_processes(run: str) -> None:
    """End the busy processes of a run, and all idle processes. Each has a few seconds to remove
    half-written files, and is killed after that. Blocks until all have ended. The run cannot start
    any more conversions; other runs continue.
    """
    with _lock:
        _ended_runs.add(run)
        _cores.clear()
        ending = [*_idle, *(process for process, owner in _busy.items() if owner == run)]
        _idle.clear()
        for process in ending:
            # An answer that arrives now must not make the process idle again: `_answer` keeps only
            # processes that are still in `_busy`.
            _busy.pop(process, None)
    for process in ending:
        process.begin_to_end()
    deadline = monotonic() + GRACE + 1
    for process in ending:
        process.kill_at(deadline)


class _EndedError(Exception):
    """The converting process has ended without an answer. The message says how."""


class _ReportedError(UsageError):
    """An error that a converting process has reported as text."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.text


def _answer(name: str, argument: Any, run: str) -> dict[str, Any]:
    with _lock:
        if run in _ended_runs:
            raise _EndedError("the run is over")
        # an idle process may have ended: for example, the system may have killed it
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
    """A new process. If processes are pinned, it is pinned to the core that the fewest others
    use.
    """
    process = _ConvertingProcess()
    if _cores:
        taken = [other.cores for other in (*_busy, *_idle)]
        process.pin(min(_cores, key=taken.count))
    return process


class _ConvertingProcess(ChildProcess):
    cores: Set[int] | None = None  # the cores to which the process is pinned

    def __init__(self) -> None:
        environment = {
            name: text for name, text in os.environ.items() if name not in _SHARED_VARIABLES
        }
        if VARIABLE in environment:
            environment[VARIABLE] = with_absolute_file(environment[VARIABLE])
        paths = map(os.path.abspath, filter(None, sys.path))
        command = [sys.executable, "-P", "-c", _START, *paths]
        # Not killed together with its caller: when its input ends, the process first removes
        # half-written files, and then ends.
        super().__init__(command, environment, is_killed=False)

    def ask(self, name: str, argument: Any) -> dict[str, Any]:
        """Send a request to the process, and wait for the answer. Raises _EndedError if the process
        ends before it answers.
        """
        try:
            self.send((name, argument))
            return dict(self.receive())
        # one of these if the process has ended, or if another thread has ended it
        except (EOFError, OSError, ValueError) as error:
            self.begin_to_end()
            self.kill_at(monotonic() + GRACE + 1)
            raise _EndedError(self._ending()) from error

    def pin(self, cores: Set[int]) -> None:
        """Pin the process, and all processes that it starts, to these cores."""
        self.cores = cores
        pin(self.id, cores)

    def begin_to_end(self) -> None:
        """Close the input of the process, which tells it that no task follows."""
        with _lock:
            _busy.pop(self, None)
        self.end_requests()

    def _ending(self) -> str:
        code = self.exit_code()
        if code == -signal.SIGKILL:
            return (
                "it was killed, probably because the system ran out of memory; with fewer --jobs, "
                "less memory is needed"
            )
        how = (
            f"with exit code {code}"
            if code >= 0
            else f"by signal {-code}, {signal.strsignal(-code)}"
        )
        words = self.last_words
        return f"{how}: {words}" if words else how
