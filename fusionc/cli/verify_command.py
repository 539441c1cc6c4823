"""`fusionc verify`: do two models compute the same? What a user's CI calls."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import log_debug_option
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import parse_run_shape
from fusionc.cli.signals import held_back
from fusionc.cli.table_options import click_option
from fusionc.errors import printable

_EXIT_CODES = {"equal": 0, "different": 3, "impossible": 1}
_EPILOG = """\b
Exit codes:
  0  equal, or equal in part: what there is no room for in the budget was left out
  1  the comparison is impossible or failed
  2  an option is wrong, or a model is not there
  3  different"""


@click.command(cls=AtcCommand, epilog=_EPILOG, short_help="Compare what two models compute.")
@click.argument("reference", type=FilePath(), is_eager=True)
@click.argument("candidate", type=FilePath(), is_eager=True)
@click.option(
    "--input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="Sizes to run the models with.",
)
@click_option("inputs")
@click_option("custom_op_library")
@click_option("runtime_level")
@click.option(
    "--locate",
    is_flag=True,
    help="Instead of judging the outputs, compare the values inside that both models have, by name "
    "and in order, and "
    "show the first that differs, with the nodes that make it.",
)
@click_option("verify_budget")
@click_option("timeout")
@log_debug_option
@click.pass_context
def command(
    ctx: click.Context,
    reference: Path,
    candidate: Path,
    input_shape: dict[str, tuple[int, ...]] | None,
    inputs: Path | None,
    custom_op_library: tuple[Path, ...],
    runtime_level: tuple[str, ...],
    locate: bool,
    verify_budget: float | None,
    timeout: float | None,
) -> None:
    """Run the models REFERENCE and CANDIDATE in onnxruntime and compare every output.

    Where CANDIDATE has a ready form beside it that fits this machine, that is compared as well.
    Areas of generated kernels run as functions: the verification of a conversion runs the kernels.
    """
    from fusionc.runtime.process import start, step_limit

    start()  # it needs some time, as the imports here do
    from fusionc.report.progress import Progress
    from fusionc.report.table import show_outputs
    from fusionc.runtime.custom_operators import custom_operators, require_loadable

    with held_back():
        from fusionc.ready_form.session_file import session_file_of
        from fusionc.verify import verify
        from fusionc.verify.budget import elements_of

    with Progress() as progress, step_limit(timeout), custom_operators(custom_op_library):
        require_loadable(custom_op_library)
        if locate:
            from fusionc.verify.locate import locate as first_difference

            located = first_difference(
                reference, candidate, input_shape=input_shape, inputs=inputs, progress=progress
            )
            for line in str(located).splitlines():
                click.echo(printable(line))
            ctx.exit(
                _EXIT_CODES[
                    "different" if located.name else "equal" if located.shared else "impossible"
                ]
            )
        verification = verify(
            reference,
            candidate,
            input_shape=input_shape,
            inputs=inputs,
            levels=runtime_level,
            progress=progress,
            elements=elements_of(verify_budget),
        )
        ready = None
        if verification.status == "equal" and session_file_of(candidate).is_file():
            from fusionc.ready_form.check_ready import check_ready

            ready = check_ready(candidate, input_shape or {}, inputs)
    click.echo(printable(verification.summary))
    for difference in verification.differences if len(verification.differences) > 1 else ():
        click.echo(printable(f"  {difference}"))
    if verification.outputs:
        click.echo()
        show_outputs(verification.outputs, sys.stdout)
    if ready is not None:
        click.echo(printable(ready.summary))
    ctx.exit(_EXIT_CODES[verification.status if ready is None or ready.is_right else "different"])
