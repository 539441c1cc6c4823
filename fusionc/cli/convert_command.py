"""`fusionc convert`: ATC's command line around `fusionc.convert`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc_spelling import AtcCommand, atc_bool, notices, other_options
from fusionc.cli.common_options import custom_passes_option, timeout_option
from fusionc.cli.exit_codes import EXIT_CODES, show_tracebacks
from fusionc.cli.files import FilePath
from fusionc.cli.modes import check, mode_options, model_of_mode, of_no_use, show_information, write_json
from fusionc.cli.shape_options import parse_run_shape, parse_sizes
from fusionc.cli.signals import held_back
from fusionc.errors import FusioncError, printable
from fusionc.options import OO_LEVELS, TARGETS
from fusionc.report.plog import LEVELS
from fusionc.requested.dimension_size import DimensionSize

if TYPE_CHECKING:
    from fusionc.report import Report

_START = "FUSIONC start working now, please wait for a moment."
_SUCCESS = "FUSIONC run success, welcome to the next use."
_FAILURE = "FUSIONC run failed, Please check the detail log, Try 'fusionc convert --help' for more information"
_FILE = FilePath()


def _only_onnx(_ctx: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value != "5":
        raise click.BadParameter(f"{value!r} is not supported: only 5, which is ONNX, is.")


def _external_weight(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return 1 if value == "2" else atc_bool(ctx, parameter, value)


@click.command(cls=AtcCommand, epilog=EXIT_CODES)
@click.option("--model", type=_FILE, metavar="FILE", help="The ONNX model to read.  [required]")
@click.option(
    "--output",
    type=_FILE,
    metavar="FILE",
    help="The model to write, with or without .onnx. Default: <model>_fusionc.onnx in the current folder.",
)
@click.option("--fusion_switch_file", type=_FILE, metavar="FILE", help="Which passes are on and off, as JSON.")
@click.option(
    "--optimization_switch", metavar='"P:on;Q:off"', help="Single switches; they beat those of the switch file."
)
@click.option(
    "--oo_level",
    type=click.Choice(OO_LEVELS),
    default="O3",
    show_default=True,
    help="O1: no fusion, only constants and known sizes folded, dead branches and nodes removed; O3: all passes. "
    "Switches that name a pass beat this option and the next two.",
)
@click.option(
    "--oo_constant_folding",
    metavar="true|false",
    default="true",
    show_default=True,
    callback=atc_bool,
    help="Fold constants and known sizes.",
)
@click.option(
    "--oo_dead_code_elimination",
    metavar="true|false",
    default="true",
    show_default=True,
    callback=atc_bool,
    help="Remove branches that are never taken.",
)
@click.option(
    "--external_weight",
    metavar="0|1",
    callback=_external_weight,
    help="Weights in the model (0) or in one file beside it (1, or 2 as in ATC). Default: beside it only where they "
    "are too large.",
)
@click.option(
    "--input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_sizes,
    help="Fix the sizes of inputs, and what follows from them; -1 and ranges (1~8) leave a dimension open. ATC's "
    "--input_shape_range does the same.",
)
@click.option("--input_shape_range", hidden=True, callback=parse_sizes)
@click.option(
    "--out_nodes",
    metavar='"conv1:0;relu2:1"',
    help="Make these the outputs, nodes with the number of an output or names of values, and leave out what is behind.",
)
@click.option(
    "--output_type",
    metavar='FP16|"conv1:0:FP16"',
    help="Convert the outputs, or those named, to FP32, FP16, DOUBLE, INT8 to INT64 or UINT8 to UINT64.",
)
@click.option(
    "--verify_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="Sizes of inputs to verify with, where those that fusionc finds are of no use. Does not change the model.",
)
@timeout_option
@click.option("--no-verify", is_flag=True, help="Do not run both models to compare their outputs.")
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default=TARGETS[0],
    show_default=True,
    help="The runtime that the result is for; onnx is any.",
)
@click.option(
    "--target_opset",
    type=click.IntRange(min=1),
    metavar="N",
    help="Raise the model to opset N first, for operators that older ones have not. Default: its own.",
)
@custom_passes_option
@click.option(
    "--pattern_fusion_pass",
    metavar="true|false",
    callback=atc_bool,
    default="true",
    show_default=True,
    help="Whether passes of your own, and those that do what TorchAir's do, run.",
)
@click.option(
    "--dump_graph",
    type=_FILE,
    metavar="DIR",
    help="Write the graph after every pass that took effect into a folder; a former dump there is removed.",
)
@click.option(
    "--enable_graph_kernel",
    metavar="[true|false]",
    callback=atc_bool,
    is_flag=False,
    flag_value="true",
    help="Make one operator of those that fit together, with a kernel in <output>.kernels.so.",
)
@click.option(
    "--graph_kernel_flags",
    metavar='"--K=V …"',
    help="Flags of graph kernel fusion, as in MS_DEV_GRAPH_KERNEL_FLAGS; all but --enable_pass and --disable_pass "
    "switch it on. docs/graph_kernel.md lists them; --disable_cluster_ops=Exp,Log, say, keeps these out of kernels.",
)
@click.option(
    "--jit_level",
    type=click.Choice(["O0", "O1", "O2"]),
    default="O0",
    show_default=True,
    help="O1 is MindSpore's word for --enable_graph_kernel.",
)
@click.option(
    "--trust_kernels",
    is_flag=True,
    help="Load the kernels beside a model that has areas, whoever made them, and let the result use them, too.",
)
@click.option(
    "--export_compile_stat",
    type=click.Choice(["0", "1", "2"]),
    default="1",
    show_default=True,
    help="Write fusion_result.json (1, 2) or not (0).",
)
@click.option(
    "--log",
    type=click.Choice(LEVELS),
    callback=show_tracebacks,
    help="Level of the log; debug also shows the traceback of a failure. Default: info.",
)
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
    model: Path | None,
    output: Path | None,
    fusion_switch_file: Path | None,
    optimization_switch: str | None,
    oo_level: str,
    oo_constant_folding: int,
    oo_dead_code_elimination: int,
    external_weight: int | None,
    input_shape: dict[str, tuple[DimensionSize, ...]],
    input_shape_range: dict[str, tuple[DimensionSize, ...]],
    out_nodes: str | None,
    output_type: str | None,
    verify_shape: dict[str, tuple[int, ...]] | None,
    timeout: float | None,
    no_verify: bool,
    target: str,
    target_opset: int | None,
    custom_passes: tuple[Path, ...],
    pattern_fusion_pass: int,
    dump_graph: Path | None,
    enable_graph_kernel: int | None,
    graph_kernel_flags: str | None,
    jit_level: str,
    trust_kernels: bool,
    export_compile_stat: str,
    log: str | None,
    mode: str,
    om: Path | None,
    json_file: Path | None,
    dump_mode: str,
    check_report: Path | None,
) -> None:
    """Optimize an ONNX model, verify the result and write it.

    Options may be written as for ATC: --fusion_switch_file, --fusion-switch-file, -fusion_switch_file. ATC's other
    options are refused where they would change the result, and have no effect where they would not.
    """
    source = model_of_mode(ctx, mode, model, om, json_file)
    if twice := sorted(input_shape.keys() & input_shape_range.keys()):
        raise click.UsageError(f"--input_shape and --input_shape_range both name {', '.join(twice)}.", ctx)
    if enable_graph_kernel is None and jit_level == "O1":
        enable_graph_kernel = 1
    notes = notices(ctx, of_no_use(ctx, mode))
    click.echo(_START)
    try:
        if mode == "6":
            show_information(source, notes)
        elif mode == "3":
            check(source, check_report, target, notes)
        elif mode == "1" and json_file is not None:
            write_json(source, json_file, notes, shapes=dump_mode == "1")
        else:
            from fusionc.runtime.process import start

            start()  # it needs some time, as the imports here do
            with held_back():
                from fusionc.api import convert
            from fusionc.report.progress import Progress

            with Progress() as progress:
                report = convert(
                    source,
                    output=output,
                    fusion_switch_file=fusion_switch_file,
                    optimization_switch=optimization_switch,
                    oo_level=oo_level,
                    oo_constant_folding=bool(oo_constant_folding),
                    oo_dead_code_elimination=bool(oo_dead_code_elimination),
                    external_weight=external_weight,
                    input_shape={**input_shape, **input_shape_range} or None,
                    out_nodes=out_nodes,
                    output_type=output_type,
                    verify_shape=verify_shape,
                    verify=not no_verify,
                    export_compile_stat=int(export_compile_stat),
                    log=log,
                    target=target,
                    target_opset=target_opset,
                    custom_passes=custom_passes,
                    pattern_fusion_pass=bool(pattern_fusion_pass),
                    dump_graph=dump_graph,
                    enable_graph_kernel=None if enable_graph_kernel is None else bool(enable_graph_kernel),
                    graph_kernel_flags=graph_kernel_flags,
                    trust_kernels=trust_kernels,
                    timeout=timeout,
                    progress=progress,
                )
            report.notices += notes
            _show(report)
    except Exception as error:
        click.echo(_FAILURE)
        if isinstance(error, FusioncError) and error.log_file is not None:
            click.echo(printable(f"log  {error.log_file}"))
        raise
    click.echo(_SUCCESS)


def _show(report: Report) -> None:
    from fusionc.report.table import show_report

    if not sys.stdout.isatty():
        for line in report.pattern_lines:
            click.echo(line)
    show_report(report, sys.stdout)
