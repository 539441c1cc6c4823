"""`fusionc verify`: compare what two models compute. The exit code is made for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import is_quiet, log_debug_option, quiet_option
from fusionc.cli.exit_codes import end_unverified
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import parse_run_shape
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option, number_of
from fusionc.errors import printable
from fusionc.options import option_kinds as kinds

if TYPE_CHECKING:
    from fusionc.ready_form.check_ready import ReadyCheck
    from fusionc.report.progress import Progress
    from fusionc.verify.result import Verification

_EXIT_CODES = {"equal": 0, "different": 3}
_BOUND = "a number from 0 to 1e9"
_EPILOG = """\b
Exit codes:
  0  equal, or equal in part (runs that exceed the budget are left out)
  1  the comparison failed
  2  an option is wrong, or a model does not exist
  3  different
  4  nothing could be compared: onnxruntime cannot run REFERENCE, or its outputs prove nothing"""


@click.command(cls=AtcCommand, epilog=_EPILOG, short_help="Compare what two models compute.")
@click.argument("reference", type=FilePath(), is_eager=True)
@click.argument("candidate", type=FilePath(), is_eager=True)
@click.option(
    "--input_shape",
    "--verify_shape",
    "input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="Sizes to run the models with.",
)
@click_option("inputs")
@click_option("custom_op_library")
@click_option("runtime_level")
@click.option(
    "--rtol",
    metavar="NUMBER",
    callback=number_of(kinds.AMOUNT, _BOUND),
    help="Accept an element a of a floating-point output if |a - b| <= ATOL + RTOL * |b|, where b "
    "is the element of REFERENCE. If only one of --rtol and --atol is given, the other is 0. "
    "Rounding then excuses nothing. On inputs with zeros, large numbers, NaN and infinities, "
    "outputs that the default accepts are accepted, too. Default: tolerances by type, and elements "
    "that rounding decides are excused.",
)
@click.option(
    "--atol", metavar="NUMBER", callback=number_of(kinds.AMOUNT, _BOUND), help="See --rtol."
)
@click.option("--json", "as_json", is_flag=True, help="All results as JSON on stdout.")
@click.option(
    "--locate",
    is_flag=True,
    help="Do not compare the outputs. Instead, compare the intermediate values that have the same "
    "name in both models, in execution order, and show the first value that differs and the nodes "
    "that compute it.",
)
@click_option("verify_budget")
@click_option("timeout")
@quiet_option
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
    rtol: float | None,
    atol: float | None,
    as_json: bool,
    locate: bool,
    verify_budget: float | None,
    timeout: float | None,
) -> None:
    """Run the models REFERENCE and CANDIDATE in onnxruntime and compare every output.

    A ready form (written by convert --ready) is the model as onnxruntime holds it in memory. If
    CANDIDATE has a ready form that fits this machine, the ready form is compared as well. Nodes
    that graph kernel fusion combined run as ONNX functions here; their generated kernels run only
    in the verification of a conversion.
    """
    has_bounds = rtol is not None or atol is not None
    if locate and has_bounds:
        raise click.UsageError("--locate does not compare with --rtol and --atol.", ctx)
    from fusionc.runtime.process import start, step_limit

    start()  # the child process starts while this process imports modules
    from fusionc.report.progress import Progress
    from fusionc.runtime.custom_operators import custom_operators, require_loadable

    with hold_signals():
        from fusionc.verify import verify
        from fusionc.verify.budget import elements_of
        from fusionc.verify.compare import Bounds

    with (
        Progress(is_quiet=is_quiet(ctx)) as progress,
        step_limit(timeout),
        custom_operators(custom_op_library),
    ):
        require_loadable(custom_op_library)
        if locate:
            answer = _locate(reference, candidate, input_shape, inputs, progress)
        else:
            verification = verify(
                reference,
                candidate,
                input_shape=input_shape,
                inputs=inputs,
                levels=runtime_level,
                progress=progress,
                elements=elements_of(verify_budget),
                bounds=Bounds(atol or 0.0, rtol or 0.0) if has_bounds else None,
            )
            is_equal = verification.status == "equal"
            ready = _check_ready(candidate, input_shape, inputs) if is_equal else None
            answer = _answer(verification, ready, _note_on_kernels(reference, candidate, ready))
    if as_json:
        text = json.dumps(answer.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        click.echo(text)
    else:
        answer.show()
    if answer.status == "impossible":
        end_unverified(ctx, answer.summary)
    ctx.exit(_EXIT_CODES[answer.status])


class _Answer(NamedTuple):
    """The result of a comparison, and the two forms in which it is printed."""

    status: str
    summary: str
    show: Callable[[], None]
    as_json: Callable[[], dict[str, Any]]


def _answer(verification: Verification, ready: ReadyCheck | None, note: str | None) -> _Answer:
    status = verification.status if ready is None or ready.is_right else "different"

    def show() -> None:
        _show(verification)
        if ready is not None:
            click.echo(printable(ready.summary))
        if note is not None:
            click.echo(printable(note))

    def as_json() -> dict[str, Any]:
        of_ready = None if ready is None else asdict(ready)
        return {**verification.as_json(), "status": status, "ready": of_ready, "kernels": note}

    return _Answer(status, verification.summary, show, as_json)


def _first_line(status: str, summary: str) -> str:
    """What is shown first. If nothing could be compared, the last line on stderr has the reason."""
    return "not verified" if status == "impossible" else summary


def _locate(
    reference: Path,
    candidate: Path,
    input_shape: dict[str, tuple[int, ...]] | None,
    inputs: Path | None,
    progress: Progress,
) -> _Answer:
    """Find the first intermediate value that differs."""
    from fusionc.verify.locate import locate

    located = locate(
        reference, candidate, input_shape=input_shape, inputs=inputs, progress=progress
    )

    def show() -> None:
        for line in _first_line(located.status, str(located)).splitlines():
            click.echo(printable(line))

    return _Answer(located.status, str(located), show, located.as_json)


def _check_ready(
    candidate: Path, input_shape: dict[str, tuple[int, ...]] | None, inputs: Path | None
) -> ReadyCheck | None:
    """The comparison with the ready form of the candidate (the model as onnxruntime has it in
    memory). None if the candidate lacks a ready form that fits this machine.
    """
    from fusionc.ready_form.session_file import session_file_of

    if not session_file_of(candidate).is_file():
        return None
    from fusionc.ready_form.check_ready import check_ready

    return check_ready(candidate, input_shape or {}, inputs)


def _note_on_kernels(reference: Path, candidate: Path, ready: ReadyCheck | None) -> str | None:
    """A note that the kernels of the candidate were not verified. None if it has no kernels."""
    from fusionc.graph_kernel.library.location import has_areas, library_for

    library = library_for(candidate)
    if not library.is_file() or not has_areas(candidate):
        return None
    done = "run" if ready is None else f"compared with {reference.name}"
    return (
        f"the kernels in {library.name} were not {done}; the conversion that made them verified "
        "them, unless it had --no-verify"
    )


def _show(verification: Verification) -> None:
    from fusionc.report.table import show_outputs

    click.echo(printable(_first_line(verification.status, verification.summary)))
    for difference in verification.differences if len(verification.differences) > 1 else ():
        click.echo(printable(f"  {difference}"))
    if verification.outputs:
        click.echo()
        show_outputs(verification.outputs, sys.stdout)
