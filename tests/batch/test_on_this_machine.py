"""Models at once on this machine, and the cores that their processes have."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import pytest

from fusionc.batch import on_this_machine
from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.on_this_machine import convert_here
from fusionc.batch.outcome import CONVERTED, Outcome


@pytest.mark.parametrize("count, jobs, expected", [(5, 2, 3), (2, 2, 0), (3, 1, 2)])
def test_processes_are_pinned_as_long_as_models_wait(
    count: int, jobs: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end: SimpleQueue[None] = SimpleQueue()
    came: list[Outcome] = []
    asked: list[int] = []

    def convert(task: ConversionTask) -> Outcome:
        may_end.get()
        return Outcome(task.name, str(task.source), CONVERTED)

    monkeypatch.setattr(on_this_machine, "convert", convert)
    monkeypatch.setattr(on_this_machine, "unpin_processes", lambda: asked.append(len(came)))
    tasks = [
        ConversionTask(Path(f"{k}.onnx"), f"{k}.onnx", Path("out"), {}, "cores", False)
        for k in range(count)
    ]
    outcomes = convert_here(tasks, jobs)
    for _ in tasks:
        may_end.put(None)
        came.append(next(outcomes))
    assert not list(outcomes) and asked == [expected], "once, when a job has nothing to begin"
