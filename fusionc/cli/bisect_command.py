"""`fusionc bisect`: find the rewrites that make the result wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.conversion_options import SEARCH, conversion_arguments, conversion_options
from fusionc.cli.files import FilePath
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option
from fusionc.errors import printable

if TYPE_CHECKING:
    from fusionc.bisect.bisect_story import Bisection, Found

_EXIT_WRONG = 3
_EPILOG = """\b
Exit codes:
  0  the result is right, or with --limit the model is written
  1  the search failed: the result cannot be judged, or the model itself is wrong
  2  an option or the switch file is wrong, or a file to read does not exist
  3  the result is wrong; the rewrites at fault are named"""


@click.command(
    cls=AtcCommand,
    epilog=_EPILOG,
    positional=("--model", "--output"),
    short_help="Find the rewrites that make a result wrong.",
)
@click_option("source", "The ONNX model whose conversion is wrong.", required=True, is_eager=True)
@click.option(
    "--check",
    metavar='"CMD {model}"',
    help="A command whose exit code says whether a model is right, as for git bisect run: 0 right, "
    "1 to 124 wrong, 125 undecided. {model} in the command is replaced by the path of the model. "
    "Default: verification, as in convert.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=(
        "Do not search. Stop the conversion after its N-th rewrite, write the model unverified, "
        "and name the N-th rewrite."
    ),
)
@click_option("destination", "The model that --limit writes. Default: <model>_fusionc.onnx.")
@click.option(
    "--output_dir",
    type=FilePath(),
    metavar="DIR",
    help="The folder for the switch file and the small models. Files of an earlier search are "
    "replaced; the folder may not contain other files. Default: <model>_bisect in the current "
    "folder.",
)
@conversion_options(*SEARCH)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: Path,
    check: str | None,
    limit: int | None,
    output: Path | None,
    output_dir: Path | None,
    **given: Any,
) -> None:
    """Find the rewrites that make the result of a conversion wrong, one after another, by repeating
    the conversion with only some of its rewrites.

    If the conversion has n rewrites, finding one rewrite at fault takes at most log2(n) + 2
    conversions. bisect names its pass, pattern and nodes, and writes a model of a few nodes that
    shows the fault. It also writes a switch file that avoids all rewrites at fault. The options
    are those of convert.
    """
    if limit is not None and check is not None:
        raise click.UsageError("--limit does not search, so there is nothing to --check.", ctx)
    if output is not None and limit is None:
        raise click.UsageError(
            "--output is what --limit writes; a search writes to --output_dir.", ctx
        )
    arguments = conversion_arguments(ctx, given)
    from fusionc.runtime.process import start

    start()  # the child process starts while this process imports modules
    with hold_signals():
        from fusionc.api import bisect, convert_up_to
    from fusionc.options import output_path
    from fusionc.report.progress import Progress

    with Progress() as progress:
        if limit is not None:
            last = convert_up_to(model, limit, output=output, progress=progress, **arguments)
            click.echo(printable(last))
            click.echo(printable(f"written to {output_path(model, output)}, not verified"))
            return
        folder = output_dir or Path(f"{model.stem}_bisect")
        bisection = bisect(model, check=check, output_dir=folder, progress=progress, **arguments)
    _show(bisection)
    ctx.exit(_EXIT_WRONG if bisection.found else 0)


def _show(result: Bisection) -> None:
    from fusionc.report.table import show_facts

    lines = [
        fact for number, finding in enumerate(result.found, 1) for fact in _facts(number, finding)
    ]
    if not result.found:
        lines.append(("result", f"right: {result.summary}"))
    elif result.is_all is None:
        what = f"without these rewrites the result cannot be judged: {result.summary}"
        lines.append(("and more", what))
    elif not result.is_all:
        lines.append(("and more", f"without these it is still wrong: {result.summary}"))
    if result.switches is not None:
        lines.append(("avoid", f"the same with --fusion_switch_file {result.switches}"))
    if result.must:
        off = ";".join(f"{name}:off" for name in result.must)
        lines.append(("avoid", f'only --optimization_switch "{off}" switches these off'))
    lines += [("notice", notice) for notice in result.notices]
    show_facts([*lines, ("runs", str(result.runs))], sys.stdout)


def _facts(number: int, finding: Found) -> list[tuple[str, str]]:
    from fusionc.report.rewrite_text import described
    from fusionc.report.table import size_text

    culprit = finding.culprit
    minimal = finding.minimal
    several = ", one of these" if len(culprit.rewrites) > 1 else ""
    facts = [
        (f"culprit {number}", f"{described(r.commit)} (of {culprit.count}){several}")
        for r in culprit.rewrites
    ]
    facts += [("without it", culprit.before), ("with it", culprit.after)]
    if minimal is None:
        what = "none: the node is in a function, contains subgraphs, or its weights are too large"
        return facts if several else [*facts, ("model", what)]
    model, rewritten = finding.files
    if minimal.is_converted:
        what = f"{model}, {size_text(model.stat().st_size)}: its conversion is {minimal.shown}"
        facts.append(("shown by", what))
    elif minimal.shown:
        facts.append(("shown by", f"fusionc verify {model} {rewritten}: {minimal.shown}"))
    else:
        what = f"{model} and {rewritten}: verification finds no difference between them"
        facts.append(("model", what))
    return facts
