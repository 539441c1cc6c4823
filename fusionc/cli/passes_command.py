"""`fusionc passes`: list all passes in execution order, or show the documentation of one pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import log_debug_option
from fusionc.cli.table_options import click_option
from fusionc.errors import UsageError, advice, printable, quote

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass


@click.command(cls=AtcCommand, short_help="List the passes, or explain one.")
@click.argument("name", required=False)
@click.option(
    "--operator",
    metavar="OPERATOR",
    help="List only the passes that have a pattern with this operator.",
)
@click_option("custom_passes")
@log_debug_option
def command(name: str | None, operator: str | None, custom_passes: tuple[Path, ...]) -> None:
    """List the passes in the order in which they run, or print the documentation of the pass NAME.

    NAME may also be an alias of one or more passes. A switch file cannot switch off a pass whose
    default is "must". OPERATOR is an operator of ONNX, such as Slice, or an operator with its
    domain, such as com.microsoft.Gelu. With --operator, passes that have no pattern, such as
    ConstantFoldingPass, are not listed.
    """
    from fusionc.custom.loading import load_passes

    passes = load_passes(custom_passes)
    if operator is not None:
        if name is not None:
            raise UsageError(
                "a name and --operator",
                where="fusionc passes",
                hint="give one of them",
                code="E10001",
            )
        _show_patterns(operator, passes)
    elif name is None:
        _show_list(passes)
    else:
        _show_pass(name, passes)


def _show_patterns(operator: str, passes: Sequence[Pass]) -> None:
    from fusionc.passes.by_operator import is_operator, operator_names, patterns_with
    from fusionc.report.table import show_table

    listed = patterns_with(operator, passes)
    if listed:
        rows = [
            [p.name, p.kind, p.default, ", ".join(one.name for one in patterns), p.summary]
            for p, patterns in listed
        ]
        show_table(["pass", "kind", "default", "patterns", "what it does"], rows, sys.stdout)
        return
    if not is_operator(operator, passes):
        hint = advice(
            operator, operator_names(passes), "operators of onnxruntime are com.microsoft.…"
        )
        raise UsageError(
            f"{quote(operator)} is not an operator", where="--operator", hint=hint, code="E10001"
        )
    click.echo(f"No pass has {printable(operator)} in a pattern.")


def _show_list(passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_table
    from fusionc.switches import PassNames

    rows = [[p.name, p.kind, p.default, p.numerics, p.summary] for p in passes]
    show_table(["pass", "kind", "default", "numerics", "what it does"], rows, sys.stdout)
    aliases = [
        [name, ", ".join(p.name for p in named)] for name, named in PassNames(passes).aliases()
    ]
    if aliases:
        click.echo()
        show_table(["other name", "stands for"], aliases, sys.stdout)


def _show_pass(name: str, passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_facts, show_text
    from fusionc.switches import PassNames

    names = PassNames(passes)
    named = names.find(name)
    if not named:
        if names.is_ascend_only(name):
            click.echo(
                f"{printable(name)} is a pass for Ascend chips: switch files may name it, and it "
                "has no effect in fusionc."
            )
            return
        hint = '"fusionc passes" without a name lists all of them'
        raise UsageError(
            names.complaint(name), where="fusionc passes NAME", hint=hint, code="E10001"
        )
    if len(named) > 1:
        click.echo(f"{name} stands for {len(named)} passes: {', '.join(p.name for p in named)}\n")
    for number, p in enumerate(named):
        click.echo(f"\n{p.name}" if number else p.name)
        show_facts(list(_facts(p)), sys.stdout)
        click.echo()
        show_text(p.documentation, sys.stdout)


def _facts(p: Pass) -> Iterator[tuple[str, str]]:
    yield "kind", p.kind
    yield "default", p.default
    yield "numerics", p.numerics
    yield "aliases", ", ".join(p.aliases) or "none"
    yield "patterns", ", ".join(pattern.name for pattern in p.patterns) or "none"
    if p.is_for_finite:
        yield "NaN and Inf", "results may differ; verification leaves such values out"
    if p.never_matches:
        yield "never matches", p.never_matches
    if p.is_pattern_fusion:
        yield "switched by", "--pattern_fusion_pass, too"
