"""`fusionc bench`: what models cost where they run, side by side."""

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
from fusionc.cli.signals import held_back
from fusionc.cli.table_options import click_option
from fusionc.options.option_table import INPUT_FILES

if TYPE_CHECKING:
    from fusionc.bench.bench_story import Bench

_MOST_OPERATORS = 12
_EPILOG = """\b
Exit codes:
  0  the models were measured
  1  onnxruntime cannot run one of them
  2  an option is wrong, a model is not there, or it takes other inputs than the first"""


def _numbers(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """A click callback: "1,8,32" as numbers, each once."""
    parts = [part.strip() for part in (text or "").split(",")] if text is not None else []
    if not all(part.isascii() and part.isdigit() and 0 < int(part) <= 1 << 20 for part in parts):
        raise click.BadParameter(f"{text!r} is not of the form 1,8,32.", ctx, parameter)
    return tuple(dict.fromkeys(map(int, parts)))


@click.command(
    cls=AtcCommand, epilog=_EPILOG, short_help="Measure what models cost where they run."
)
@click.argument(
    "models", type=FilePath(), nargs=-1, required=True, is_eager=True, metavar="MODEL..."
)
@click.option(
    "--input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="Sizes to run the models with.",
)
@click.option(
    "--inputs",
    type=FilePath(),
    metavar="PATH",
    help="Values of inputs to run the models with, instead of those that fusionc draws: "
    f"{INPUT_FILES} Of several "
    "samples the first is taken.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Fresh processes for each model.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=1.0,
    show_default=True,
    help="Of measuring, for each model in each process.",
)
@confidence_option("With which the true ratio lies within the bounds that are shown.")
@click.option(
    "--batch_sizes",
    metavar="1,8,32",
    callback=_numbers,
    help="Throughput with these numbers of samples.",
)
@click.option(
    "--threads", metavar="1,2,4", callback=_numbers, help="Throughput on these numbers of threads."
)
@click.option(
    "--trust_kernels", is_flag=True, help="Load the kernels beside a model, whoever made them."
)
@click.option(
    "--json", "as_json", is_flag=True, help="All of it as JSON on stdout: seconds, bytes, ratios."
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
    """Run models in turn, each as fusionc.session opens it, on the same inputs and in several fresh
    processes.

    Shown are the time to load, the peak of memory, percentiles of the time of a run, the ratio of
    that to the first model's with its bounds, and the operators that take the time. One process is
    one observation: where memory happens to lie makes it faster or slower as a whole. A ratio whose
    bounds have 1 between them says nothing.
    """
    from fusionc.runtime.process import start, step_limit

    start()
    with held_back():
        from fusionc.bench.bench_story import BenchRequest, bench
    from fusionc.report.progress import Progress
    from fusionc.runtime.custom_operators import custom_operators, require_loadable

    with Progress() as progress, step_limit(timeout), custom_operators(custom_op_library):
        require_loadable(custom_op_library)
        found = bench(
            BenchRequest(
                models, inputs, input_shape, seconds, processes, confidence / 100, batch_sizes, threads, trust_kernels,
                progress,
            )
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(found)


def _show(found: Bench) -> None:
    from fusionc.bench.bench_story import PERCENTILES
    from fusionc.report.table import show_facts, show_table

    shares = [f">p{100 * part:g} ms" for part in PERCENTILES]
    rows = []
    for cost in found.costs:
        times = [f"{1e3 * cost.seconds[part]:.3f}" for part in PERCENTILES]
        memory = [f"{size / 1e6:.1f}" for size in (cost.loaded, cost.peak)]
        bounds = (
            ["1", ""]
            if cost.ratio is None
            else [f"{cost.ratio.ratio:.3f}", _bounds(cost.ratio.low, cost.ratio.high)]
        )
        rows.append([cost.name, f"{1e3 * cost.load_seconds:.1f}", *memory, *times, *bounds])
    show_table(
        ["model", ">load ms", ">loaded MB", ">peak MB", *shares, ">ratio", ">bounds"],
        rows,
        sys.stdout,
    )
    for cost in found.costs:
        click.echo()
        by_time = sorted(cost.operators.operators.items(), key=lambda item: -item[1][1])
        of_all = cost.operators.seconds or 1.0
        rows = [
            [name, f"{count:g}", f"{1e3 * seconds:.3f}", f"{100 * seconds / of_all:.1f}"]
            for name, (count, seconds) in by_time[:_MOST_OPERATORS]
        ]
        between = cost.operators.between
        rows.append(["between them", "", f"{1e3 * between:.3f}", f"{100 * between / of_all:.1f}"])
        show_table([f"operators of {cost.name}, profiled", ">nodes", ">ms", ">%"], rows, sys.stdout)
    if found.throughput:
        click.echo()
        rows = [
            [
                one.name,
                str(one.batch),
                str(one.threads or "default"),
                f"{one.samples_per_second:.1f}",
            ]
            for one in found.throughput
        ]
        show_table(["model", ">batch", ">threads", ">samples/s"], rows, sys.stdout)
    click.echo()
    imports = max(cost.imported for cost in found.costs)
    facts = [
        ("inputs", found.label),
        ("memory", f"of it, Python and onnxruntime are {imports / 1e6:.1f} MB"),
    ]
    facts.append(
        (
            "operators",
            "to profile takes time of its own, more than the model where that is a fast one",
        )
    )
    show_facts([*facts, *(("notice", notice) for notice in found.notices)], sys.stdout)


def _bounds(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}" if low else "unknown: one process"
