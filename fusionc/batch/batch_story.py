"""Convert many models from start to finish: check the options once → convert each model → write a
summary.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.converting_process import check, end_processes, start_processes
from fusionc.batch.find_models import RECORDS, FoundModel
from fusionc.batch.on_this_machine import convert_here
from fusionc.batch.outcome import Outcome
from fusionc.batch.summary import Summary, summary_file, write_summary
from fusionc.disk.places import cannot_be_written, remove_abandoned
from fusionc.errors import UsageError
from fusionc.graph_kernel.flags.file_of_flags import with_absolute_file
from fusionc.runtime.cores import cores

if TYPE_CHECKING:
    from fusionc.rewrite import Pass


def convert_many(
    models: Sequence[FoundModel],
    output: Path,
    arguments: Mapping[str, Any],
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    notes: Sequence[str] = (),
    tell: Callable[[Outcome], None] = lambda _: None,
) -> Summary:
    """Convert all models into the folder `output`, and write a summary there.

    arguments    those of `fusionc.convert`, except model, output and progress
    jobs         the number of models converted at once; by default the number of cores
    scheduler    the address of a Dask cluster that converts the models
    resume       keep existing results of the same models and options
    notes        additional notices for the summary
    tell         is called with each outcome as soon as it is known

    An error of one model becomes the outcome of that model, and is not raised. Raises UsageError
    for wrong options or an unusable cluster, and FusioncError if the output cannot be written. If a
    signal ends the call, no half-written files and no processes remain.
    """
    started = perf_counter()
    run = secrets.token_hex(8)
    outcomes = list[Outcome]()
    absolute = {name: _absolute(value) for name, value in arguments.items()}
    output = _absolute(output)
    if absolute.get("graph_kernel_flags") is not None:
        absolute["graph_kernel_flags"] = with_absolute_file(absolute["graph_kernel_flags"])
    _require_folders(absolute)
    tasks = [
        ConversionTask(_absolute(model.source), model.name, output, absolute, run, resume)
        for model in models
    ]
    at_once = min(jobs or cores(), len(tasks))
    try:
        if scheduler is None:
            # With --report, processes are not pinned, because report pages show times of runs that
            # use all cores.
            start_processes(
                at_once, are_pinned=len(tasks) > at_once and absolute.get("report") is None
            )
        notices = [*check(absolute, run), *notes, *_notices(absolute.get("custom_passes") or ())]
        _make_folder(output)
        _clean(tasks)
        answers = (
            convert_here(tasks, at_once)
            if scheduler is None
            else _convert_on_cluster(scheduler, tasks)
        )
        with closing(answers):
            for outcome in answers:
                if not outcomes:
                    # from now on, the summary of an earlier run is outdated
                    summary_file(output / RECORDS).unlink(missing_ok=True)
                outcomes.append(outcome)
                tell(outcome)
    finally:
        end_processes(run)
        _clean(tasks)
    summary = Summary(sorted(outcomes, key=lambda o: o.name), notices, perf_counter() - started)
    write_summary(summary, output / RECORDS)
    return summary


def _require_folders(options: Mapping[str, Any]) -> None:
    """Raise UsageError if --report or --dump_graph names a file instead of a folder."""
    for name in ("report", "dump_graph"):
        path = options.get(name)
        if path is not None and path.exists() and not path.is_dir():
            what = f"--{name} of many models must be a folder, but a file has this name"
            hint = "give the name of a folder"
            raise UsageError(what, where=str(path), hint=hint, code="E10001")


def _convert_on_cluster(scheduler: str, tasks: Sequence[ConversionTask]) -> Generator[Outcome]:
    # imported here, because it imports onnx, which is slow
    from fusionc.batch.on_dask import convert_on_cluster

    return convert_on_cluster(scheduler, tasks)


def _registered_passes(files: Sequence[Path]) -> list[Pass]:
    """The passes that the calling program has registered, except those from `files`.

    A program without the module `custom.replacement`, such as the command, cannot have registered
    passes. The module is not imported for this question, because the import takes 0.2 s.
    """
    if "fusionc.custom.replacement" not in sys.modules:
        return []
    from fusionc.custom.loading import registered_elsewhere

    return registered_elsewhere(files)


def _notices(files: Sequence[Path]) -> list[str]:
    """A notice if the calling program has registered passes that are not from `files`. Such passes
    do not run, because the converting processes do not know them.
    """
    registered = ", ".join(p.name for p in _registered_passes(files))
    if not registered:
        return []
    what = f"registered passes did not run ({registered})"
    why = "many models are converted in other processes; give the file of passes as custom_passes"
    return [f"{what}: {why}"]


def _make_folder(output: Path) -> None:
    try:
        (output / RECORDS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_be_written(error, output) from error


def _clean(tasks: Sequence[ConversionTask]) -> None:
    """Remove temporary folders of killed processes."""
    for folder in {task.destination.parent for task in tasks}:
        remove_abandoned(folder)


def _absolute(value: Any) -> Any:
    """The value with absolute paths: other processes may work in other folders."""
    if isinstance(value, tuple):
        return tuple(map(_absolute, value))
    return Path(os.path.abspath(value)) if isinstance(value, Path) else value
