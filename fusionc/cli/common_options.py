"""The options that several commands have: --custom_passes, --timeout, --log debug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fusionc.cli.exit_codes import show_tracebacks
from fusionc.cli.files import FilePath
from fusionc.runtime.optimizers import DEFAULT_LEVELS, LEVELS

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    try:
        seconds = 0.0 if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e9:
        raise click.BadParameter(
            f"{text!r} is not a number of seconds from 0 to 1e9.", context, parameter
        )
    return None if text is None else seconds


custom_passes_option = click.option(
    "--custom_passes",
    type=FilePath(),
    multiple=True,
    metavar="FILE",
    help="A Python file with passes of your own; may be given several times.",
)


def confidence_option(help_text: str) -> Callable[[_Command], _Command]:
    """--confidence of commands that measure."""
    return click.option(
        "--confidence",
        type=click.FloatRange(50, 100, max_open=True),
        default=95.0,
        show_default=True,
        metavar="PERCENT",
        help=help_text,
    )


INPUT_FILES = (
    "an .npz file with the names of the inputs, a folder with an .npy file for each, or one with "
    "input_0.pb, "
    "input_1.pb, …; for several samples a folder of these, such as ONNX's test sets."
)
inputs_option = click.option(
    "--inputs",
    type=FilePath(),
    metavar="PATH",
    help=f"Values of inputs to run the models with, besides those that fusionc draws: {INPUT_FILES} "
    "Outputs that are "
    "recorded there are compared, too.",
)
custom_op_library_option = click.option(
    "--custom_op_library",
    type=FilePath(),
    multiple=True,
    metavar="LIB",
    help="A shared library with operators that the models use and onnxruntime does not have; may be "
    "given several "
    "times. It is loaded, and its code runs.",
)
runtime_level_option = click.option(
    "--runtime_level",
    type=click.Choice(LEVELS),
    multiple=True,
    default=DEFAULT_LEVELS,
    show_default=True,
    help="At which levels of onnxruntime's own optimizers the result runs; may be given several "
    "times. disabled, at "
    "which both models always run, judges the result; what differs at another level alone is the "
    "fault of optimizers, "
    "and the report names which, and how to switch them off.",
)
verify_budget_option = click.option(
    "--verify_budget",
    type=click.FloatRange(min=0),
    metavar="BILLIONS",
    help="How many billions of elements a verification may compute in all its runs; 32 "
    "multiplications of a product "
    "count as one element. Sizes that fusionc finds are chosen accordingly. What there is no "
    "room for is left out: the "
    "result is then verified in part. 0: no limit. Default: 30, or 2 for each thousand nodes, "
    "and 512 MiB of values at "
    "once besides the size of the weights.",
)
timeout_option = click.option(
    "--timeout",
    callback=_seconds,
    metavar="SECONDS",
    help="How long one step of onnxruntime may take: loading a model, running it once. 0: as long as "
    "it likes. "
    "Default: 300.",
)
log_debug_option = click.option(  # for a command that writes no log
    "--log",
    type=click.Choice(["debug"]),
    expose_value=False,
    callback=show_tracebacks,
    help="debug shows the traceback of a failure.",
)
