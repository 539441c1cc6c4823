"""A round: each model runs in a fresh process, and the models take turns in slices of time."""

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
_MIN_SLICES = 3
# A round of slow models ends early when it has taken this many times the requested time.
_LATE = 2.0
_COPIES = 3  # loading a model takes this many times the size of its files in memory


@dataclass(frozen=True)
class Measured:
    """The measurements of one model in one process."""

    slices: tuple[tuple[float, ...], ...]  # for each slice, the seconds of each run
    load_seconds: float
    imported: int  # the peak memory in bytes before the model was loaded
    loaded: int  # the peak memory in bytes after loading
    peak: int  # the peak memory in bytes at the end

    @property
    def runs(self) -> list[float]:
        """The seconds of all runs."""
        return [run for one in self.slices for run in one]


class _Runs(NamedTuple):
    """The fields of Measured that come from the runs of a model."""

    slices: tuple[tuple[float, ...], ...] = ()
    peak: int = 0


def measure_round(
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    seconds: float,
    seed: int,
) -> dict[str, Measured]:
    """Measure each model for `seconds` on its feeds. The seed determines the order of the models.

    If memory suffices, all models are loaded at once and take turns. Otherwise each model is
    measured alone; other work on the machine may then disturb the models differently. Raises
    RunError if onnxruntime fails.
    """
    names = list(models)
    random.Random(seed).shuffle(names)
    groups = [names] if _fit_into_memory(models) else [[name] for name in names]
    return {
        name: measured
        for group in groups
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
        # all processes finish their imports before any of them loads a model
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
    """Run the loaded models in turn: one slice of time for each model, then the next slice."""
    names = list(processes)
    runs = {name: _Runs() for name in names}
    began = perf_counter()
    limit = longest_step()
    # Each slice begins with a run that does not count. The last run may end after the slice.
    slice_limit = None if limit is None else 2 * limit + seconds / _SLICES
    for number in range(_SLICES):
        for name in names if number % 2 else reversed(names):
            times, peak = processes[name].ask("measure_runs", (seconds / _SLICES,), slice_limit)
            runs[name] = _Runs((*runs[name].slices, tuple(times)), peak)
        is_late = perf_counter() - began > _LATE * seconds * len(names)
        if is_late and number + 1 >= _MIN_SLICES:
            break
    return runs


def _fit_into_memory(models: Mapping[str, DeployedModel]) -> bool:
    files = [model.file for model in models.values()]
    memory = available()
    return (
        memory is None
        or _COPIES * sum(_bytes_of(file, file.stat().st_mtime_ns) for file in files) < memory
    )


@lru_cache
def _bytes_of(file: Path, _modified: int) -> int:
    """The size of a model and its weights. Computing it reads the model, so it is cached for each
    version of a file.
    """
    return bytes_on_disk(onnx.load(file, load_external_data=False), file)
