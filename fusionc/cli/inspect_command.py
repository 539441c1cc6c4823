"""`fusionc inspect`: show what in a model costs time or memory, and what to do about it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import log_debug_option
from fusionc.cli.files import FilePath
from fusionc.cli.signals import hold_signals

if TYPE_CHECKING:
    from fusionc.inspect.inspect_story import Inspection

_MAX_PLACES = 3  # at most this many names are shown for each finding; --json has all of them
_EPILOG = """\b
Exit codes:
  0  the model was inspected
  1  the file is not a valid model
  2  an option is wrong, or the model does not exist"""


@click.command(
    cls=AtcCommand,
    epilog=_EPILOG,
    positional=("--model",),
    short_help="Show what in a model costs time or memory.",
)
@click.option("--model", required=True, type=FilePath(), help="The model (.onnx).")
@click.option(
    "--json", "as_json", is_flag=True, help="The findings as JSON on stdout, with all names."
)
@log_debug_option
def command(model: Path, as_json: bool) -> None:
    """Examine a model without changing it.

    inspect says how the model is quantized and which parts compute with integers. It finds
    operators that have no fast kernel on a CPU, integer convolutions, signed activations, unrolled
    recurrences, subnormal numbers and dead filters in the weights, weights that are stored twice,
    and dimensions without a fixed size. Each finding comes with advice. inspect also runs the
    passes in memory, without writing a model, to say what a conversion does about each finding.
    """
    with hold_signals():
        from fusionc.inspect.inspect_story import inspect

    inspection = inspect(model)
    if as_json:
        click.echo(json.dumps(inspection.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(inspection)


def _show(inspection: Inspection) -> None:
    from fusionc.report.table import show_facts

    show_facts(inspection.facts, sys.stdout)
    for finding in inspection.findings:
        more = len(finding.places) - _MAX_PLACES
        places = ", ".join(finding.places[:_MAX_PLACES]) + (
            f", and {more} more" if more > 0 else ""
        )
        click.echo()
        facts = [
            ("found", f"{finding.topic}: {finding.text}"),
            ("where", places),
            ("to do", finding.to_do),
        ]
        show_facts(facts, sys.stdout)
    if not inspection.findings:
        click.echo()
        show_facts([("found", "nothing; fusionc convert shows what can be fused")], sys.stdout)
