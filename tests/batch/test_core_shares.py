"""Which job has which cores, and that all that works for it keeps to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusionc.batch import core_shares
from fusionc.batch.core_shares import all_cores, tie

WAITS = """
import subprocess, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "cores, jobs, expected",
    [
        ({0, 1}, 2, [{0}, {1}]),
        ({5, 2, 9}, 2, [{2}, {5, 9}]),
        (set(range(8)), 3, [{0, 1}, {2, 3, 4}, {5, 6, 7}]),
        ({0, 1}, 1, [{0, 1}]),
        ({0, 1}, 3, []),
        (set(), 2, []),
    ],
    ids=["one each", "their numbers", "none is left out", "one job", "more jobs than cores", "not known"],
)
def test_shares(cores: set[int], jobs: int, expected: list[set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_shares, "all_cores", lambda: cores)
    assert core_shares.core_shares(jobs) == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ties processes to cores")
def test_threads_and_children_are_tied_too() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WAITS], **pipes, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        child = int(process.stdout.readline())
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        one = {max(all_cores())}
        for cores in (one, all_cores()):
            tie(process.pid, cores)
            assert len(threads) == 2 and all(os.sched_getaffinity(n) == cores for n in (*threads, child))
        process.stdin.close()
    tie(process.pid, one)  # it has ended, which is no error
