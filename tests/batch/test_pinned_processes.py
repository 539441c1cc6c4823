"""Which job has which core, and that all that works for it keeps to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from many_models import needs_two_cores

from fusionc.batch import pinned_processes
from fusionc.batch.pinned_processes import pin
from fusionc.runtime.cores import core_numbers

WAITS = """
import subprocess, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "numbers, jobs, expected",
    [
        ({0, 1}, 2, [{0}, {1}]),
        ({9, 2, 5}, 3, [{2}, {5}, {9}]),
        (set(range(8)), 3, []),
        ({0}, 1, []),
        ({0, 1}, 3, []),
        (set(), 2, []),
    ],
    ids=["one each", "their numbers", "fewer jobs", "one job", "more jobs", "not known"],
)
def test_cores_of_jobs(
    numbers: set[int], jobs: int, expected: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned_processes, "core_numbers", lambda: numbers)
    monkeypatch.setattr(pinned_processes, "can_pin", lambda: True)
    assert pinned_processes.cores_of_jobs(jobs) == expected
    monkeypatch.setattr(pinned_processes, "can_pin", lambda: False)
    assert pinned_processes.cores_of_jobs(jobs) == []


@needs_two_cores
def test_threads_and_children_are_pinned_too() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WAITS], **pipes, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        child = int(process.stdout.readline())
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        one = {max(core_numbers())}
        for some in (one, core_numbers()):
            pin(process.pid, some)
            assert len(threads) == 2 and all(
                os.sched_getaffinity(n) == some for n in (*threads, child)
            )
        process.stdin.close()
    pin(process.pid, one)  # it has ended, which is no error
