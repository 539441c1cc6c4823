"""What a conversion is asked for, as options: those of every command that converts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from fusionc.cli.atc_spelling import atc_bool
from fusionc.cli.common_options import (
    custom_op_library_option,
    custom_passes_option,
    inputs_option,
    runtime_level_option,
    timeout_option,
    verify_budget_option,
)
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import parse_axes, parse_run_shape, parse_sizes
from fusionc.options import OO_LEVELS, TARGETS

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_FILE = FilePath()
_BOOLEANS = (
    "oo_constant_folding", "oo_dead_code_elimination", "pattern_fusion_pass", "enable_graph_kernel",
)  # fmt: skip


def _external_weight(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    try:
        return 1 if value == "2" else atc_bool(ctx, parameter, value)
    except click.BadParameter as error:
        raise click.BadParameter(f"{value!r} is none of 0, 1 and 2.") from error


def _on_unless_told(name: str, help_: str) -> Callable[[_Decorated], _Decorated]:
    """An option that takes true or false."""
    return click.option(
        name, metavar="true|false", default="true", show_default=True, callback=atc_bool, help=help_
    )


_WHICH_REWRITES = (  # what runs, on which model
    click.option(
        "--fusion_switch_file",
        type=_FILE,
        metavar="FILE",
        help="Which passes are on and off, as JSON.",
    ),
    click.option(
        "--optimization_switch",
        metavar='"P:on;Q:off"',
        help="Single switches; they beat those of the switch file.",
    ),
    click.option(
        "--oo_level",
        type=click.Choice(OO_LEVELS),
        default="O3",
        show_default=True,
        help="O1: no fusion, only constants and known sizes folded, dead branches and nodes removed; "
        "O3: all passes. "
        "Switches that name a pass beat this option and the next two.",
    ),
    _on_unless_told("--oo_constant_folding", "Fold constants and known sizes."),
    _on_unless_told("--oo_dead_code_elimination", "Remove branches that are never taken."),
    _on_unless_told(
        "--pattern_fusion_pass",
        "Whether passes of your own, and those that do what TorchAir's do, run.",
    ),
    custom_passes_option,
    click.option(
        "--input_shape",
        metavar='"x:1,3,224,224"',
        callback=parse_sizes,
        help="Fix the sizes of inputs, and what follows from them; -1 and ranges (1~8) leave a "
        "dimension open. ATC's "
        "--input_shape_range does the same.",
    ),
    click.option("--input_shape_range", hidden=True, callback=parse_sizes),
    click.option(
        "--free_dim",
        metavar='"x:0;mask:0"',
        callback=parse_axes,
        help="Make sizes of inputs symbolic that are fixed, by input and axis (x:0=batch says the "
        "symbol), and what "
        "follows from them. Where something in the model holds a size, the error says what.",
    ),
    click.option(
        "--out_nodes",
        metavar='"conv1:0;relu2:1"',
        help="Make these the outputs, nodes with the number of an output or names of values, and "
        "leave out what is "
        "behind.",
    ),
    click.option(
        "--target",
        type=click.Choice(TARGETS),
        default=TARGETS[0],
        show_default=True,
        help="The runtime that the result is for; onnx is any.",
    ),
    click.option(
        "--target_opset",
        type=click.IntRange(min=1),
        metavar="N",
        help=(
            "Raise the model to opset N first, for operators that older ones do not have. "
            "Default: its own."
        ),
    ),
)
_KERNELS = (  # which areas are made
    click.option(
        "--enable_graph_kernel",
        metavar="[true|false]",
        callback=atc_bool,
        is_flag=False,
        flag_value="true",
        help="Make one operator of those that fit together, with a kernel in <output>.kernels.so.",
    ),
    click.option(
        "--graph_kernel_flags",
        metavar='"--K=V …"',
        help="Flags of graph kernel fusion, as in MS_DEV_GRAPH_KERNEL_FLAGS; all but --enable_pass "
        "and --disable_pass "
        "switch it on. docs/graph_kernel.md lists them; --disable_cluster_ops=Exp,Log, say, "
        "keeps these out of "
        "kernels.",
    ),
    click.option(
        "--jit_level",
        type=click.Choice(["O0", "O1", "O2"]),
        default="O0",
        show_default=True,
        help="O1 is MindSpore's word for --enable_graph_kernel.",
    ),
)
_OPTIONS = (
    *_WHICH_REWRITES,
    click.option(
        "--external_weight",
        metavar="0|1",
        callback=_external_weight,
        help="Weights in the model (0) or in one file beside it (1, or 2 as in ATC). Default: beside "
        "it only where "
        "they are too large.",
    ),
    click.option(
        "--output_type",
        metavar='FP16|"conv1:0:FP16"',
        help=(
            "Convert the outputs, or those named, to FP32, FP16, DOUBLE, INT8 to INT64, UINT8 to "
            "UINT64 or BOOL."
        ),
    ),
    click.option(
        "--verify_shape",
        metavar='"x:1,3,224,224"',
        callback=parse_run_shape,
        help=(
            "Sizes of inputs to verify with, where those that fusionc finds are of no use. Does "
            "not change the model."
        ),
    ),
    inputs_option,
    custom_op_library_option,
    runtime_level_option,
    verify_budget_option,
    timeout_option,
    *_KERNELS,
    click.option(
        "--trust_kernels",
        is_flag=True,
        help=(
            "Load the kernels beside a model that has areas, whoever made them, and let the "
            "result use them, too."
        ),
    ),
)


def conversion_options(command: _Decorated) -> _Decorated:
    """The options that say what a conversion does."""
    return _with(command, _OPTIONS)


def rewrite_options(command: _Decorated) -> _Decorated:
    """Those of them that say which passes run, on which model, and which areas are made."""
    return _with(command, (*_WHICH_REWRITES, *_KERNELS))


def _with(command: _Decorated, options: Sequence[Callable[[_Decorated], _Decorated]]) -> _Decorated:
    for option in reversed(options):
        command = option(command)
    return command


def conversion_arguments(ctx: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these options, and of others, as arguments of `fusionc.convert`."""
    arguments = dict(given)
    sizes, ranges = (arguments.pop(name) for name in ("input_shape", "input_shape_range"))
    if twice := sorted(sizes.keys() & ranges.keys()):
        raise click.UsageError(
            f"--input_shape and --input_shape_range both name {', '.join(twice)}.", ctx
        )
    if arguments.pop("jit_level", None) == "O1" and arguments["enable_graph_kernel"] is None:
        arguments["enable_graph_kernel"] = 1
    arguments |= {
        name: bool(arguments[name]) for name in _BOOLEANS if arguments.get(name) is not None
    }
    return arguments | {"input_shape": {**sizes, **ranges} or None}
