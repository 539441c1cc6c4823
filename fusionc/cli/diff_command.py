"""`fusionc diff`: show the differences between two models, for example before and after an
optimizer.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import log_debug_option
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import parse_run_shape
from fusionc.cli.signals import hold_signals

if TYPE_CHECKING:
    from fusionc.diff.changes import Change
    from fusionc.diff.diff_story import ModelDiff

_EXIT_DIFFERENT = 3
_EPILOG = """\b
Exit codes:
  0  the models were compared
  1  the comparison failed
  2  an option is wrong, or a model does not exist
  3  with --exit_code: they differ"""


@click.command(cls=AtcCommand, epilog=_EPILOG, short_help="Show what differs between two models.")
@click.argument("before", type=FilePath(), is_eager=True)
@click.argument("after", type=FilePath(), is_eager=True)
@click.option(
    "--nodes",
    is_flag=True,
    help="Show each change on its own line with the names of its nodes. Default: one line for all "
    "similar changes.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="All results as JSON on stdout, every node by name."
)
@click.option(
    "--markdown",
    is_flag=True,
    help="The tables as Markdown on stdout, for a comment on a pull request.",
)
@click.option(
    "--exit_code", is_flag=True, help="End with 3 if the models differ, as git diff ends with 1."
)
@click.option(
    "--input_shape",
    metavar='"x:1,3,224,224"',
    callback=parse_run_shape,
    help="The input sizes for counting operations and bytes. Default: 1 for every dimension "
    "without a fixed size.",
)
@log_debug_option
@click.pass_context
def command(
    ctx: click.Context,
    before: Path,
    after: Path,
    nodes: bool,
    as_json: bool,
    markdown: bool,
    exit_code: bool,
    input_shape: dict[str, tuple[int, ...]] | None,
) -> None:
    """Compare the models BEFORE and AFTER without running them: interface, versions, nodes,
    weights, sizes.

    The results of any tool can be compared. A node that a pass of fusionc made records that pass
    and the nodes that it replaces. Other nodes are matched by name, and then by operator and
    neighbours. Differences of names, comments and metadata are ignored.
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    with hold_signals():
        from fusionc.diff.diff_story import model_diff

    diff = model_diff(before, after, input_shape)
    if as_json:
        click.echo(json.dumps(diff.as_json(), indent=2, ensure_ascii=False))
    elif markdown:
        _show_markdown(diff, nodes)
    else:
        _show(diff, nodes)
    ctx.exit(_EXIT_DIFFERENT if exit_code and not diff.is_same else 0)


def _show(diff: ModelDiff, every_node: bool) -> None:
    from fusionc.report.table import show_facts, show_table

    for headers, rows in _tables(diff, every_node):
        show_table(headers, rows, sys.stdout)
        click.echo()
    show_facts(list(_facts(diff)), sys.stdout)


def _show_markdown(diff: ModelDiff, every_node: bool) -> None:
    for headers, rows in _tables(diff, every_node):
        marks = ["--:" if header.startswith(">") else "---" for header in headers]
        for cells in ([header.lstrip(">") for header in headers], marks, *rows):
            click.echo(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        click.echo()
    for name, text in _facts(diff):
        click.echo(f"- {name}: {text}")


def _tables(diff: ModelDiff, every_node: bool) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Headers and rows of each table that is not empty. `>` marks a column of numbers."""
    from fusionc.diff.diff_story import summed

    yield ["", ">before", ">after", ">change"], list(_measures(diff))
    before = diff.before.operators
    after = diff.after.operators
    counts = [
        (name, before.get(name, 0), after.get(name, 0))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    labels = {**diff.before.areas, **diff.after.areas}
    if counts:
        rows = [
            [labels.get(name, name), str(old), str(new), f"{new - old:+}"]
            for name, old, new in counts
        ]
        yield ["operator", ">before", ">after", ">change"], rows
    changes = (
        [(change, 1) for change in diff.nodes.changes] if every_node else summed(diff.nodes.changes)
    )
    if changes:
        rows = [
            [str(times), change.kind, _text(change, labels, every_node)]
            for change, times in changes
        ]
        yield [">times", "nodes", "what"], rows


def _measures(diff: ModelDiff) -> Iterator[list[str]]:
    from fusionc.report.table import size_text

    one = diff.before
    other = diff.after
    yield ["IR version", str(one.ir_version), str(other.ir_version), ""]
    for domain in dict.fromkeys([*one.opsets, *other.opsets]):
        yield [
            f"opset {domain}",
            *(str(measures.opsets.get(domain, "none")) for measures in (one, other)),
            "",
        ]
    yield [
        "size on disk",
        size_text(one.bytes),
        size_text(other.bytes),
        _percent(one.bytes, other.bytes),
    ]
    both = (one, other)
    signs = ["≥ " if measures.unknown else "" for measures in both]
    moved = [f"{sign}{size_text(m.bytes_moved)}" for sign, m in zip(signs, both, strict=True)]
    computed = [f"{sign}{m.operations:,}" for sign, m in zip(signs, both, strict=True)]
    is_known = not any(signs)
    yield [
        "parameters",
        f"{one.parameters:,}",
        f"{other.parameters:,}",
        _percent(one.parameters, other.parameters),
    ]
    yield ["nodes", f"{one.nodes:,}", f"{other.nodes:,}", _percent(one.nodes, other.nodes)]
    yield ["operations", *computed, _percent(one.operations, other.operations) if is_known else ""]
    yield ["bytes moved", *moved, _percent(one.bytes_moved, other.bytes_moved) if is_known else ""]


def _percent(before: int, after: int) -> str:
    from fusionc.report.table import percent_text

    return percent_text(before, after) if before and before != after else ""


def _text(change: Change, labels: Mapping[str, str], with_names: bool) -> str:
    """A change in words. `labels` has the label of each area by its name."""
    sides = [
        ", ".join(_words([labels.get(n.operator.rpartition(".")[2], n.operator) for n in nodes]))
        for nodes in (change.before, change.after)
    ]
    details = f": {', '.join(change.details)}" if change.details else ""
    makers = f", by {', '.join(change.passes)}" if change.passes else ""
    text = f"{' → '.join(dict.fromkeys(filter(None, sides)))}{details}{makers}"
    first = (change.before or change.after)[0].name
    if not with_names:
        return f"{text}; first: {first}"
    names = [", ".join(node.name for node in nodes) for nodes in (change.before, change.after)]
    return f"{text}: {' → '.join(dict.fromkeys(filter(None, names)))}"


def _words(operators: Sequence[str]) -> list[str]:
    """Each operator once. An operator that occurs several times has its count."""
    return [f"{count} {name}" if count > 1 else name for name, count in Counter(operators).items()]


def _facts(diff: ModelDiff) -> Iterator[tuple[str, str]]:
    kept = ", ".join(f"{times} by {how}" for how, times in diff.nodes.kept.items())
    matched = f", matched {kept}" if kept else ""
    changed = sum(change.kind == "changed" for change in diff.nodes.changes)
    yield "in both", f"{sum(diff.nodes.kept.values())} nodes{matched}; {changed} changed"
    yield "weights", _weights(diff) or "none"
    yield from (("interface", text) for text in diff.interface or ("the same",))
    yield "counted with", _counted_sizes(diff)
    yield "result", "the same" if diff.is_same else "the graphs differ"


def _weights(diff: ModelDiff) -> str:
    weights = diff.weights
    counts = {
        "equal": weights.equal,
        "equal under other names": weights.renamed,
        "changed": len(weights.changed),
        "only before": len(weights.removed),
        "only after": len(weights.added),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _counted_sizes(diff: ModelDiff) -> str:
    sizes = "; ".join(
        f"{name}:{','.join(map(str, shape))}" for name, shape in diff.before.sizes.items()
    )
    unknown = max(diff.before.unknown, diff.after.unknown)
    left_out = f"; without {unknown} nodes whose size is unknown" if unknown else ""
    return f"{sizes or 'the sizes of the model'}{left_out}"
