"""`fusionc convert` of many models: the options, and the output on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from fusionc.cli.common_options import is_quiet
from fusionc.errors import Terminated, UsageError

if TYPE_CHECKING:
    from fusionc.batch.summary import Summary
    from fusionc.cli.report_json import ReportFile

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_OPTIONS = (
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="With many models: how many are converted at once. Default: one for each core.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="With many models: keep an existing result if the same version of fusionc made it "
        "from the same model with the same options.",
    ),
    click.option(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        help="Convert many models on a Dask cluster. Its machines must see the models and results "
        "under the same paths as this machine. Needs pip install 'fusionc[cluster]' on this "
        "machine and on the cluster.",
    ),
)
_NAMES = ("jobs", "resume", "scheduler")


def batch_options(command: _Decorated) -> _Decorated:
    """The options for converting many models."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def asks_for_batch(ctx: click.Context, models: Sequence[Path], mode: str) -> bool:
    """Whether these paths mean a batch of models. Raises click.UsageError if the mode allows only
    one model.
    """
    from fusionc.batch.find_models import asks_for_many

    is_batch = asks_for_many(models)
    if is_batch and mode != "0":
        raise click.UsageError(f"--mode {mode} is for one model, and --model names many.", ctx)
    return is_batch


def unused_batch_options(ctx: click.Context, is_batch: bool) -> list[str]:
    """The given batch options that have no effect. For one model, no batch option has an effect;
    with --scheduler, --jobs has no effect.
    """
    given = [
        name for name in _NAMES if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if not is_batch:
        return [f"--{name}" for name in given]
    return ["--jobs"] if "scheduler" in given and "jobs" in given else []


def convert_batch(
    ctx: click.Context,
    models: Sequence[Path],
    given: Mapping[str, Any],
    notes: Sequence[str],
    file: ReportFile,
    *,
    jobs: int | None,
    scheduler: str | None,
    resume: bool,
) -> Summary:
    """Convert the models, show a summary, and return it. `file` gets the summary, too. Raises
    FusioncError if a model has no result.
    """
    from fusionc.batch.batch_progress import BatchProgress
    from fusionc.batch.batch_story import convert_many
    from fusionc.batch.find_models import RECORDS, find_models
    from fusionc.batch.summary import show_summary, summary_file

    arguments = dict(given)
    output = arguments.pop("output")
    if output is None:
        where = ", ".join(map(str, models))
        what = "many models are converted, so --output must name a folder for the results"
        hint = "give the folder with --output"
        raise UsageError(what, where=where, hint=hint, code="E10001")
    sources = find_models(models, output, arguments.get("dump_graph"))
    try:
        with BatchProgress(len(sources), is_quiet=is_quiet(ctx)) as progress:
            summary = convert_many(
                sources,
                output,
                arguments,
                jobs=jobs,
                scheduler=scheduler,
                resume=resume,
                notes=notes,
                tell=progress,
            )
    except (KeyboardInterrupt, Terminated):
        click.echo(f"fusionc: {progress.said}; the same command with --resume continues", err=True)
        raise
    file.describe(summary)
    show_summary(summary, output / RECORDS, sys.stdout)
    fault = summary.fault(summary_file(output / RECORDS))
    if fault is not None:
        raise fault
    return summary
