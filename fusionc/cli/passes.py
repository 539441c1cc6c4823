"""`fusionc passes`: the registry in execution order, or one pass in full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc import AtcCommand
from fusionc.cli.custom import custom_passes_option
from fusionc.cli.failures import log_debug_option
from fusionc.errors import UsageError

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass


@click.command(cls=AtcCommand)
@click.argument("name", required=False)
@custom_passes_option
@log_debug_option
def command(name: str | None, custom_passes: tuple[Path, ...]) -> None:
    """List the passes in the order in which they run, or print the documentation of the pass NAME.

    NAME may be an alias. A default of "must" is a pass that a switch file cannot switch off.
    """
    from fusionc.custom.loading import load_passes

    passes = load_passes(custom_passes)
    if name is None:
        _show_list(passes)
    else:
        _show_pass(name, passes)


def _show_list(passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_table

    rows = [[p.name, p.kind, p.default, p.numerics, p.summary] for p in passes]
    show_table(["pass", "kind", "default", "numerics", "what it does"], rows, sys.stdout)


def _show_pass(name: str, passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_facts
    from fusionc.switches import PassNames

    names = PassNames(passes)
    found = names.find(name)
    if found is None:
        if names.is_ascend_only(name):
            click.echo(f"{name} is Ascend only: it is accepted in switch files and has no effect here.")
            return
        hint = '"fusionc passes" without a name lists all of them'
        raise UsageError(names.complaint(name), where="fusionc passes NAME", hint=hint, code="E10001")
    click.echo(found.name)
    facts = [
        ("kind", found.kind),
        ("default", found.default),
        ("numerics", found.numerics),
        ("aliases", ", ".join(found.aliases) or "none"),
        ("patterns", ", ".join(pattern.name for pattern in found.patterns) or "none"),
    ]
    facts += [("NaN and Inf", "may give other results, verification leaves them out")] if found.is_for_finite else []
    facts += [("never matches", found.never_matches)] if found.never_matches else []
    facts += [("switched by", "--pattern_fusion_pass, too")] if found.is_pattern_fusion else []
    show_facts(facts, sys.stdout)
    click.echo(f"\n{found.documentation}")
