"""`fusionc bench`: measure the time and memory of models side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import confidence_option, log_debug_option
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import parse_run_shape
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option
from fusionc.errors import printable
from fusionc.options.option_table import INPUT_FILES

if TYPE_CHECKING:
    from fusionc.bench.bench_story import Bench, ModelCost

_MAX_OPERATORS = 12
_EPILOG = """\b
Exit codes:
  0  the models were measured
  1  onnxruntime cannot run one of the models
  2  an option is wrong, a model does not exist, or a model takes other inputs than the first"""


def _numbers(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """A click callback: the numbers in "1,8,32", without duplicates."""
    parts = [part.strip() for part in (text or "").split(",")] if text is not None else []
    if not all(part.isascii() and part.isdigit() and 0 < int(part) <= 1 << 20 for part in parts):
        raise click.BadParameter(f"{text!r} is not of the form 1,8,32.", ctx, parameter)
    return tuple(dict.fromkeys(map(int, parts)))


@click.command(cls=AtcCommand, epilog=_EPILOG, short_help="Measure the time and memory of models.")
@click.argument(
    "models", type=FilePath(), nargs=-1, required=True, is_eager=True, metavar="MODEL..."
)
@click.option(
    "--input_shape",
    "--verify_shape",
    "input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="Sizes to run the models with.",
)
@click.option(
    "--inputs",
    type=FilePath(),
    metavar="PATH",
    help="Input values to run the models with, instead of fusionc's random values: "
    f"{INPUT_FILES} Only the first of several samples is used.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many fresh processes run each model.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=1.0,
    show_default=True,
    help="How long to measure each model in each process.",
)
@confidence_option("The confidence that the true ratio of run times lies within the shown bounds.")
@click.option(
    "--batch_sizes",
    metavar="1,8,32",
    callback=_numbers,
    help="Also measure the throughput with these batch sizes.",
)
@click.option(
    "--threads",
    metavar="1,2,4",
    callback=_numbers,
    help="Also measure the throughput on these numbers of threads.",
)
@click.option(
    "--trust_kernels",
    is_flag=True,
    help="Load the generated kernels next to a model, even if another installation built them.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="All results as JSON on stdout: seconds, bytes, ratios."
)
@click_option("custom_op_library")
@click_option("timeout")
@log_debug_option
def command(
    models: tuple[Path, ...],
    input_shape: dict[str, tuple[int, ...]] | None,
    inputs: Path | None,
    processes: int,
    seconds: float,
    confidence: float,
    batch_sizes: Sequence[int],
    threads: Sequence[int],
    trust_kernels: bool,
    as_json: bool,
    custom_op_library: tuple[Path, ...],
    timeout: float | None,
) -> None:
    """Run models in turn on the same inputs, in several fresh processes. The models are opened as
    fusionc.session opens them.

    For each model the result shows the load time, the peak memory, percentiles of the run time, and
    the operators that take the most time. It also shows the ratio of the run time to that of the
    first model, with bounds. Each process counts as one observation, because the placement of
    memory makes a whole process faster or slower. If 1 lies between the bounds of a ratio, neither
    model is proved to be faster.
    """
    from fusionc.runtime.process import start, step_limit

    start()
    with hold_signals():
        from fusionc.bench.bench_story import BenchRequest, bench
    from fusionc.report.progress import Progress
    from fusionc.runtime.custom_operators import custom_operators, require_loadable

    with Progress() as progress, step_limit(timeout), custom_operators(custom_op_library):
        require_loadable(custom_op_library)
        measured = bench(
            BenchRequest(
                models,
                inputs,
                input_shape,
                seconds,
                processes,
                confidence / 100,
                batch_sizes,
                threads,
                trust_kernels,
                progress,
            )
        )
    if as_json:
        text = json.dumps(measured.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        click.echo(text)
    else:
        _show(measured)


def _show(measured: Bench) -> None:
    from fusionc.report.table import show_facts

    _show_costs(measured)
    for cost in measured.costs:
        click.echo()
        _show_operators(cost)
    if measured.throughput:
        click.echo()
        _show_throughput(measured)
    click.echo()
    imports = max(cost.imported for cost in measured.costs)
    facts = [
        ("inputs", measured.label),
        ("memory", f"includes {imports / 1e6:.1f} MB for Python and onnxruntime"),
        ("operators", "profiling takes time: for a fast model, more than the model itself"),
        *(("notice", notice) for notice in measured.notices),
    ]
    show_facts(facts, sys.stdout)


def _show_costs(measured: Bench) -> None:
    from fusionc.bench.bench_story import PERCENTILES
    from fusionc.report.table import show_table

    percentiles = [f">p{100 * part:g} ms" for part in PERCENTILES]
    rows = []
    for cost in measured.costs:
        times = [f"{1e3 * cost.seconds[part]:.3f}" for part in PERCENTILES]
        memory = [f"{size / 1e6:.1f}" for size in (cost.loaded, cost.peak)]
        ratio = ["1", ""]
        if cost.ratio is not None:
            ratio = [f"{cost.ratio.ratio:.3f}", _bounds(cost.ratio.low, cost.ratio.high)]
        rows.append([cost.name, f"{1e3 * cost.load_seconds:.1f}", *memory, *times, *ratio])
    head = ["model", ">load ms", ">loaded MB", ">peak MB", *percentiles, ">ratio", ">bounds"]
    show_table(head, rows, sys.stdout)


def _show_operators(cost: ModelCost) -> None:
    """Show the operators of one model that take most of the time."""
    from fusionc.report.table import show_table

    by_time = sorted(cost.operators.operators.items(), key=lambda item: -item[1][1])
    total = cost.operators.seconds or 1.0
    rows = [
        [
            cost.areas.get(name, name),
            f"{count:g}",
            f"{1e3 * seconds:.3f}",
            f"{100 * seconds / total:.1f}",
        ]
        for name, (count, seconds) in by_time[:_MAX_OPERATORS]
    ]
    between = cost.operators.between
    rows.append(["between them", "", f"{1e3 * between:.3f}", f"{100 * between / total:.1f}"])
    click.echo(printable(f"operators of {cost.name}, profiled"))
    show_table(["operator", ">nodes", ">ms", ">%"], rows, sys.stdout)


def _show_throughput(measured: Bench) -> None:
    from fusionc.report.table import show_table

    rows = [
        [one.name, str(one.batch), str(one.threads or "default"), f"{one.samples_per_second:.1f}"]
        for one in measured.throughput
    ]
    show_table(["model", ">batch", ">threads", ">samples/s"], rows, sys.stdout)


def _bounds(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}" if low else "unknown: one process"
