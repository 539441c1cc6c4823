"""`fusionc convert` of many models: the options, and what the terminal shows of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fusionc.errors import Terminated, UsageError

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_OPTIONS = (
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Of many models: how many are converted at once. Default: as many as there are cores.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Of many models: keep the results that are there, if the same version made them of the "
        "same models with "
        "the same options.",
    ),
    click.option(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        help="Convert many models on a cluster of Dask, the machines of which see models and results "
        "under the same "
        "paths. Needs pip install 'fusionc[cluster]', there as here.",
    ),
)
_NAMES = ("jobs", "resume", "scheduler")


def batch_options(command: _Decorated) -> _Decorated:
    """The options that say how many models are converted."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def asks_for_batch(ctx: click.Context, models: Sequence[Path], mode: str) -> bool:
    """Whether these are many models. Raises click.UsageError where the mode is for one."""
    from fusionc.batch.find_models import asks_for_many

    is_batch = asks_for_many(models)
    if is_batch and mode != "0":
        raise click.UsageError(f"--mode {mode} is for one model, and --model names many.", ctx)
    return is_batch


def of_no_use_beside(ctx: click.Context, is_batch: bool) -> list[str]:
    """Those of the options that were given, and that one model, or a cluster, has no use for."""
    given = [
        name for name in _NAMES if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    idle = ("jobs",) if is_batch and "scheduler" in given else () if is_batch else _NAMES
    return [f"--{name}" for name in given if name in idle]


def convert_batch(
    models: Sequence[Path],
    given: Mapping[str, Any],
    notes: Sequence[str],
    *,
    jobs: int | None,
    scheduler: str | None,
    resume: bool,
) -> None:
    """Convert them and show what came of it. Raises FusioncError where there is not a result of
    each.
    """
    from fusionc.batch.batch_progress import BatchProgress
    from fusionc.batch.batch_story import convert_many
    from fusionc.batch.find_models import RECORDS, find_models
    from fusionc.batch.summary import show_summary, summary_file

    arguments = dict(given)
    output = arguments.pop("output")
    if output is None:
        where = ", ".join(map(str, models))
        what = "a folder, a pattern or several models need a folder for the results"
        hint = "give one with --output"
        raise UsageError(what, where=where, hint=hint, code="E10001")
    found = find_models(models, output, arguments.get("dump_graph"))
    try:
        with BatchProgress(len(found)) as progress:
            summary = convert_many(
                found,
                output,
                arguments,
                jobs=jobs,
                scheduler=scheduler,
                resume=resume,
                notes=notes,
                tell=progress,
            )
    except (KeyboardInterrupt, Terminated):
        click.echo(f"fusionc: {progress.said}; the same command with --resume goes on", err=True)
        raise
    show_summary(summary, output / RECORDS, sys.stdout)
    fault = summary.fault(summary_file(output / RECORDS))
    if fault is not None:
        raise fault
