"""`fusionc passes`: list all passes in execution order, or show the documentation of one pass."""

from __future__ import annotations

import json
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
@click.option("--json", "as_json", is_flag=True, help="The listed passes as JSON on stdout.")
@click_option("custom_passes")
@log_debug_option
def command(
    name: str | None, operator: str | None, as_json: bool, custom_passes: tuple[Path, ...]
) -> None:
    """List the passes in the order in which they run, or print the documentation of the pass NAME.

    NAME may also be an alias of one or more passes, or a part of a name: all passes whose names
    contain it are then listed. A switch file cannot switch off a pass whose default is "must".
    OPERATOR is an operator of ONNX, such as Slice, or an operator with its domain, such as
    com.microsoft.Gelu. Passes that have no pattern, such as ConstantFoldingPass, are not listed
    with --operator.
    """
    from fusionc.custom.loading import load_passes

    passes = load_passes(custom_passes)
    if operator is not None:
        if name is not None:
            raise UsageError(
                "a name and --operator are both given",
                where="fusionc passes",
                hint="give one of them",
                code="E10001",
            )
        _show_patterns(operator, passes, as_json)
    elif name is None:
        _show_list(passes, as_json)
    else:
        _show_named(name, passes, as_json)


def _show_json(passes: Sequence[Pass]) -> None:
    content = [
        {
            "name": p.name,
            "kind": p.kind,
            "default": p.default,
            "numerics": p.numerics,
            "summary": p.summary,
            "aliases": list(p.aliases),
            "patterns": [pattern.name for pattern in p.patterns],
            "documentation": p.documentation,
        }
        for p in passes
    ]
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))


def _show_patterns(operator: str, passes: Sequence[Pass], as_json: bool) -> None:
    from fusionc.passes.by_operator import is_operator, operator_names, patterns_with
    from fusionc.report.table import show_table

    listed = patterns_with(operator, passes)
    if as_json and (listed or is_operator(operator, passes)):
        _show_json([p for p, _ in listed])
        return
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


def _show_rows(passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_table

    rows = [[p.name, p.kind, p.default, p.numerics, p.summary] for p in passes]
    show_table(["pass", "kind", "default", "numerics", "what it does"], rows, sys.stdout)


def _show_list(passes: Sequence[Pass], as_json: bool) -> None:
    from fusionc.report.table import show_table
    from fusionc.switches import PassNames

    if as_json:
        _show_json(passes)
        return
    _show_rows(passes)
    aliases = [
        [name, ", ".join(p.name for p in named)] for name, named in PassNames(passes).aliases()
    ]
    if aliases:
        click.echo()
        show_table(["other name", "stands for"], aliases, sys.stdout)


def _show_named(name: str, passes: Sequence[Pass], as_json: bool) -> None:
    """Show the passes with this name or alias. If there are none, list the passes whose names
    contain it.
    """
    from fusionc.switches import PassNames

    names = PassNames(passes)
    named = names.find(name)
    is_ascend_only = not named and names.is_ascend_only(name)
    listed = named or ([] if is_ascend_only else _search(name, passes))
    if as_json and (listed or is_ascend_only):
        _show_json(listed)
    elif is_ascend_only:
        click.echo(
            f"{printable(name)} is a pass for Ascend chips: switch files may name it, and it "
            "has no effect in fusionc."
        )
    elif named or len(listed) == 1:
        _show_passes(name, listed)
    elif listed:
        _show_rows(listed)
    else:
        hint = '"fusionc passes" without a name lists all of them'
        raise UsageError(
            names.complaint(name), where="fusionc passes NAME", hint=hint, code="E10001"
        )


def _search(part: str, passes: Sequence[Pass]) -> list[Pass]:
    """The passes whose name or alias is `part`. If there are none, the passes whose name or alias
    contains `part`. Case is ignored.
    """
    wanted = part.casefold()
    names = {p: [name.casefold() for name in (p.name, *p.aliases)] for p in passes}
    same = [p for p, own in names.items() if wanted in own]
    return same or [p for p, own in names.items() if any(wanted in name for name in own)]


def _show_passes(name: str, passes: Sequence[Pass]) -> None:
    from fusionc.report.table import show_facts, show_text

    if len(passes) > 1:
        click.echo(f"{name} stands for {len(passes)} passes: {', '.join(p.name for p in passes)}\n")
    for number, p in enumerate(passes):
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
