"""`fusionc convert`: ATC's command line around `fusionc.convert`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusionc.cli.atc_modes import (
    check,
    mode_options,
    model_of_mode,
    show_information,
    unused_options,
    write_json,
)
from fusionc.cli.atc_spelling import AtcCommand, notices, other_options
from fusionc.cli.batch_options import (
    asks_for_batch,
    batch_options,
    convert_batch,
    unused_batch_options,
)
from fusionc.cli.common_options import is_quiet, quiet_option
from fusionc.cli.conversion_options import CONVERSION, conversion_arguments, conversion_options
from fusionc.cli.exit_codes import EXIT_CODES, end_unverified
from fusionc.cli.files import FilePath
from fusionc.cli.report_json import report_file, report_json_option
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option
from fusionc.errors import FusioncError, printable
from fusionc.options import OPTIONS

if TYPE_CHECKING:
    from fusionc.batch.summary import Summary
    from fusionc.report import Report

_START = "FUSIONC start working now, please wait for a moment."
_SUCCESS = "FUSIONC run success, welcome to the next use."
_UNVERIFIED = "FUSIONC run finished, but the result is not verified."
_FAILURE = "FUSIONC run failed"


def _only_onnx(_ctx: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value != "5":
        raise click.BadParameter(f"{value!r} is not supported: only 5 (ONNX) is.")


@click.command(cls=AtcCommand, epilog=EXIT_CODES, positional=("--model", "--output"))
@click.option(
    "--model",
    "models",
    type=FilePath(),
    multiple=True,
    is_eager=True,
    metavar="FILE",
    help="The ONNX model to read. To convert many models in parallel processes, give a folder, a "
    "pattern such as 'models/**/*.onnx', or --model several times.  [required]",
)
@click_option(
    "destination",
    f"{OPTIONS['destination'].help} For many models, the folder for the results: the results get "
    "the same subfolders as the models, and the subfolder fusionc_records gets the logs and "
    "summary.json.",
)
@quiet_option
@batch_options
@conversion_options(*CONVERSION)
@report_json_option
@mode_options
@click.option(
    "--framework",
    default="5",
    show_default=True,
    metavar="5",
    expose_value=False,
    callback=_only_onnx,
    help="Only 5 (ONNX).",
)
@other_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    mode: str,
    om: Path | None,
    json_file: Path | None,
    dump_mode: str,
    check_report: Path | None,
    models: tuple[Path, ...],
    jobs: int | None,
    resume: bool,
    scheduler: str | None,
    report_json: Path | None,
    **given: Any,
) -> None:
    """Optimize an ONNX model, verify the result and write it.

    Options may be spelled as ATC allows: --fusion_switch_file, --fusion-switch-file or
    -fusion_switch_file. An option of ATC that is not listed here is refused if it would change the
    result; otherwise it has no effect.
    """
    is_batch = asks_for_batch(ctx, models, mode)
    source = model_of_mode(ctx, mode, models[0] if models else None, om, json_file)
    arguments = conversion_arguments(ctx, given)
    notes = notices(ctx, [*unused_options(ctx, mode), *unused_batch_options(ctx, is_batch)])
    is_conversion = mode == "0"
    done: Report | Summary | None = None

    def mode_of_atc() -> None:
        if mode == "6":
            show_information(source, notes)
        elif mode == "3":
            check(source, check_report, given["target"], notes)
        elif json_file is not None:
            write_json(source, json_file, notes, shapes=dump_mode == "1")

    click.echo(_START)
    try:
        with report_file(report_json if is_conversion else None, models) as file:
            if is_batch:
                done = convert_batch(
                    ctx,
                    models,
                    arguments,
                    notes,
                    file,
                    jobs=jobs,
                    scheduler=scheduler,
                    resume=resume,
                )
            elif is_conversion:
                done = _convert(ctx, source, arguments)
                done.notices += notes
                file.describe(done)
                _show(done)
            else:
                mode_of_atc()
    except Exception as error:
        _show_failure(error)
        raise
    if done is not None and done.unverified:
        click.echo(_UNVERIFIED)
        end_unverified(ctx, done.unverified)
    click.echo(_SUCCESS)


def _show_failure(error: Exception) -> None:
    """Show ATC's line about a failure. The line asks the user to read the log only if there is one,
    and the help only if the error does not say what to do.
    """
    log = error.log_file if isinstance(error, FusioncError) else None
    clauses = [_FAILURE]
    if log is not None:
        clauses.append("Please check the detail log")
    if isinstance(error, FusioncError) and not error.hint:
        clauses.append("Try 'fusionc convert --help' for more information")
    click.echo(", ".join(clauses))
    if log is not None:
        click.echo(printable(f"log  {log}"))


def _convert(ctx: click.Context, source: Path, arguments: Mapping[str, Any]) -> Report:
    from fusionc.runtime.process import start

    start()  # the child process starts while this process imports modules
    with hold_signals():
        from fusionc.api import convert
        from fusionc.conversion.kernel_gain import gain_wanted
    from fusionc.report.progress import Progress

    with Progress(is_quiet=is_quiet(ctx)) as progress, gain_wanted():
        return convert(source, **arguments, progress=progress)


def _show(report: Report) -> None:
    from fusionc.report.table import show_report

    if not sys.stdout.isatty():
        for line in report.pattern_lines:
            click.echo(line)
    show_report(report, sys.stdout)
