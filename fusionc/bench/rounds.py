"""A round: every model in a fresh process, and their runs in turn, one slice of time each."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import onnx

from fusionc.bench.deployed_model import DeployedModel
from fusionc.report.model_info import bytes_on_disk
from fusionc.runtime.memory import available
from fusionc.runtime.process import Process, longest_step
from fusionc.runtime.run_errors import Killed

_SLICES = 20
_LEAST_SLICES = 3
# how many times as long as asked for a round of slow models may take before it has fewer slices
_LATE = 2.0
_COPIES = 3  # of its files, that a model needs while it is loaded


@dataclass(frozen=True)
class Measured:
    """One model in one process."""

    slices: tuple[tuple[float, ...], ...]  # seconds of each run, by slices
    load_seconds: float
    imported: int  # bytes that the process held at most before the model was loaded
    loaded: int  # bytes after loading
    peak: int  # bytes at the end

    @property
    def runs(self) -> list[float]:
        """All runs."""
        return [run for one in self.slices for run in one]


class _Runs(NamedTuple):
    """The fields of Measured that one model's runs give."""

    slices: tuple[tuple[float, ...], ...] = ()
    peak: int = 0


def measure_round(
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    seconds: float,
    seed: int,
) -> dict[str, Measured]:
    """Measure each model for a number of seconds on its feeds; the seed decides their order.

    If memory suffices, all are loaded at once. Otherwise each is measured alone, and other
    processes on the machine do not affect all alike. Raises RunError if onnxruntime fails.
    """
    names = list(models)
    random.Random(seed).shuffle(names)
    together = [names] if _fit_into_memory(models) else [[name] for name in names]
    return {
        name: measured
        for group in together
        for name, measured in _measure_together(group, models, feeds, seconds).items()
    }


def _measure_together(
    names: list[str],
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    seconds: float,
) -> dict[str, Measured]:
    with ExitStack() as stack:
        processes = {name: Process() for name in names}
        for process in processes.values():
            stack.callback(process.end)
        # none imports while another one loads
        if not all(process.begins() for process in processes.values()):
            raise Killed()
        loads: dict[str, tuple[float, int, int]] = {
            name: process.ask(
                "measure_load", (*models[name].arguments(), feeds[name]), longest_step()
            )
            for name, process in processes.items()
        }
        runs = _run_in_turn(processes, seconds)
    return {name: Measured(runs[name].slices, *loads[name], runs[name].peak) for name in names}


def _run_in_turn(processes: Mapping[str, Process], seconds: float) -> dict[str, _Runs]:
    """Run the loaded models in turn, each for a slice of the seconds at a time."""
    names = list(processes)
    runs = {name: _Runs() for name in names}
    began = perf_counter()
    limit = longest_step()
    # A run goes first that does not count, and the last one of a slice may begin at its end.
    patience = None if limit is None else 2 * limit + seconds / _SLICES
    for number in range(_SLICES):
        for name in names if number % 2 else reversed(names):
            times, peak = processes[name].ask("measure_runs", (seconds / _SLICES,), patience)
            runs[name] = _Runs((*runs[name].slices, tuple(times)), peak)
        is_late = perf_counter() - began > _LATE * seconds * len(names)
        if is_late and number + 1 >= _LEAST_SLICES:
            break
    return runs


def _fit_into_memory(models: Mapping[str, DeployedModel]) -> bool:
    files = [model.file for model in models.values()]
    room = available()
    return (
        room is None
        or _COPIES * sum(_bytes_of(file, file.stat().st_mtime_ns) for file in files) < room
    )


@lru_cache
def _bytes_of(file: Path, _modified: int) -> int:
    """Of a model and its weights, which takes as long as to read it: of each file once."""
    return bytes_on_disk(onnx.load(file, load_external_data=False), file)
