"""Tables for people: fitted to the terminal there, plain columns of any width where the output is not a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from fusionc.report.report import Report


def show_report(report: Report, stream: TextIO) -> None:
    """The whole story of a conversion: passes that matched, what changed, verification, notices, files."""
    matched = [total for total in report.passes() if total.matched]
    if not matched:
        print("no pass matched", file=stream)
    else:
        rows = [
            [t.kind, t.name, str(t.matched), str(t.effected), str(t.matched - t.effected), f"{t.seconds * 1000:.1f}"]
            for t in matched
        ]
        show_table(["kind", "pass", ">matched", ">effected", ">refused", ">ms"], rows, stream)
    refused = [[t.name, str(times), " ".join(reason.split())] for t in matched for reason, times in t.refused.items()]
    if refused:
        print(file=stream)
        show_table(["pass", ">refused", "because"], refused, stream)
    types = sorted(report.operators_before.keys() | report.operators_after.keys())
    counts = [(name, report.operators_before.get(name, 0), report.operators_after.get(name, 0)) for name in types]
    changed = [[name, str(before), str(after)] for name, before, after in counts if before != after]
    if changed:
        print(file=stream)
        show_table(["operator", ">before", ">after"], changed, stream)
    print(file=stream)
    show_facts(_facts(report), stream)


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Print rows under headers. A header that begins with ">" is that of a column of numbers."""
    if stream.isatty():
        _show_in_terminal(headers, rows, stream)
        return
    cells = [[header.lstrip(">") for header in headers], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.rjust(width) if header.startswith(">") else cell.ljust(width)
            for header, cell, width in zip(headers, row, widths, strict=True)
        ]
        print("  ".join(padded).rstrip(), file=stream)


def show_facts(facts: Sequence[tuple[str, str]], stream: TextIO) -> None:
    """Print names and values, one a line, the values aligned."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name.ljust(width)}  {value}".rstrip(), file=stream)


def size_text(count: int) -> str:
    """A number of bytes for people: 1536 is "1.5 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def _facts(report: Report) -> list[tuple[str, str]]:
    facts = [
        ("nodes", f"{report.nodes_before} -> {report.nodes_after}"),
        ("size", f"{size_text(report.bytes_before)} -> {size_text(report.bytes_after)}"),
        ("verification", report.verification or "skipped"),
        *(("notice", notice) for notice in report.notices),
    ]
    if report.log_file is not None:
        facts.append(("log", str(report.log_file)))
    if report.output is not None:
        facts.append(("output", str(report.output)))
    if report.kernels is not None:
        facts.append(("kernels", str(report.kernels)))
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in report.stages.items())
    facts.append(("time", f"{report.seconds:.2f} s" + (f" ({stages})" if stages else "")))
    return facts


def _show_in_terminal(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        # A pass name that is broken in two cannot be copied.
        table.add_column(
            header.lstrip(">"),
            justify="right" if header.startswith(">") else "left",
            overflow="fold",
            no_wrap=header == "pass",
        )
    for row in rows:
        table.add_row(*row)
    # Names and reasons hold [brackets] and :colons:, which are not meant as markup.
    Console(file=stream, markup=False, emoji=False, highlight=False).print(table)
