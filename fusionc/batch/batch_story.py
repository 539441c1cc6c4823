"""The story of many models on one page: check the options once → convert each → sum up."""

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
from fusionc.batch.on_this_machine import converted_here
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

    arguments    those of `fusionc.convert`, but for model, output and progress
    jobs         how many at once, by default as many as there are cores
    scheduler    the address of a Dask cluster that does it instead
    resume       keep results that were made of the same models with the same options
    notes        more notices, for the summary
    tell         is called with each outcome as it comes

    What goes wrong with a model is its outcome. Raises UsageError for wrong options and an unfit
    cluster, FusioncError where the output cannot be written. Ended by a signal, it leaves nothing
    half written and no process.
    """
    started = perf_counter()
    run = secrets.token_hex(8)
    outcomes = list[Outcome]()
    given = {name: _absolute(value) for name, value in arguments.items()}
    output = _absolute(output)
    if given.get("graph_kernel_flags") is not None:
        given["graph_kernel_flags"] = with_absolute_file(given["graph_kernel_flags"])
    _require_folders(given)
    tasks = [
        ConversionTask(_absolute(model.source), model.name, output, given, run, resume)
        for model in models
    ]
    at_once = min(jobs or cores(), len(tasks))
    try:
        if scheduler is None:
            # Pages have times of runs on all cores.
            start_processes(
                at_once, are_pinned=len(tasks) > at_once and given.get("report") is None
            )
        notices = [*check(given, run), *notes]
        if own := _registered(given.get("custom_passes") or ()):
            what = (
                f"{', '.join(p.name for p in own)}, which this program has registered, took no part"
            )
            notices.append(
                f"{what}: many models are converted in other processes; name the file with "
                "custom_passes"
            )
        _make_folder(output)
        _clean(tasks)
        answers = (
            converted_here(tasks, at_once) if scheduler is None else _converted_on(scheduler, tasks)
        )
        with closing(answers):
            for outcome in answers:
                if not outcomes:
                    summary_file(output / RECORDS).unlink(missing_ok=True)  # that of an earlier run
                outcomes.append(outcome)
                tell(outcome)
    finally:
        end_processes(run)
        _clean(tasks)
    summary = Summary(sorted(outcomes, key=lambda o: o.name), notices, perf_counter() - started)
    write_summary(summary, output / RECORDS)
    return summary


def _require_folders(given: Mapping[str, Any]) -> None:
    """Raise UsageError where pages or dumps of many models would go into what is no folder."""
    for name in ("report", "dump_graph"):
        path = given.get(name)
        if path is not None and path.exists() and not path.is_dir():
            what = f"--{name} of many models is a folder, and this is none"
            hint = "give the name of a folder"
            raise UsageError(what, where=str(path), hint=hint, code="E10001")


def _converted_on(scheduler: str, tasks: Sequence[ConversionTask]) -> Generator[Outcome]:
    from fusionc.batch.on_dask import converted_on  # and with it onnx, which takes a while

    return converted_on(scheduler, tasks)


def _registered(files: Sequence[Path]) -> list[Pass]:
    """The passes that this program has registered besides those of files. A program that has not
    imported `custom.replacement`, as the command has not, has registered none; the import would
    keep a core busy for 0.2 s.
    """
    if "fusionc.custom.replacement" not in sys.modules:
        return []
    from fusionc.custom.loading import registered_elsewhere

    return registered_elsewhere(files)


def _make_folder(output: Path) -> None:
    try:
        (output / RECORDS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_be_written(error, output) from error


def _clean(tasks: Sequence[ConversionTask]) -> None:
    """Remove temporary folders that killed processes have left."""
    for folder in {task.destination.parent for task in tasks}:
        remove_abandoned(folder)


def _absolute(value: Any) -> Any:
    """Paths that hold in other processes, too; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(_absolute, value))
    return Path(os.path.abspath(value)) if isinstance(value, Path) else value
