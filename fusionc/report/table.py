"""Tables and facts as text. In a terminal they fit its width; elsewhere no line is wrapped."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from fusionc.errors import printable
from fusionc.report.report import NOT_VERIFIED
from fusionc.runtime.processor import has_bfloat16

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from fusionc.report.report import KernelGain, PassTotal, Report
    from fusionc.report.run_cost import RunCost
    from fusionc.verify.output_errors import OutputErrors

_MIN_TEXT_WIDTH = 24  # characters; with less space, the text of the last column gets its own lines
_INDENT = "    "
_KEPT = "\N{NO-BREAK SPACE}"  # at this blank no line is broken; `printable` has escaped all others
# the blank between a number and its unit
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMG]iB|B|ms|µs|s|%|million|billion|MACs)(?:\W|$))")
_MAX_OUTPUTS = 20
_UNLISTED = "(equal runs on special inputs, such as zeros, large numbers and NaN, are not listed)"
# the names of the levels of onnxruntime's optimizers in the table of outputs
_OPTIMIZERS = {"disabled": "off", "all": "on"}
OUTPUT_HEADERS = ("output", "optimizers", ">samples", ">max abs", ">max rel", ">cosine", "worst at")


def show_report(report: Report, stream: TextIO) -> None:
    """Show a conversion: passes that matched, changes, verification, notices, files."""
    matched = [total for total in report.passes() if total.matched]
    if not matched:
        print("no pass matched", file=stream)
    else:
        headers = ["kind", "pass", ">matched", ">effected", ">refused", ">ms"]
        show_table(headers, list(map(_pass_row, matched)), stream)
    refused = [
        [total.name, str(times), " ".join(reason.split())]
        for total in matched
        for reason, times in total.refused.items()
    ]
    if refused:
        print(file=stream)
        show_table(["pass", ">refused", "because"], refused, stream)
    if changed := list(_changed_counts(report)):
        print(file=stream)
        show_table(["operator", ">before", ">after"], changed, stream)
    if report.outputs:
        print(file=stream)
        show_outputs(report.outputs, stream)
    print(file=stream)
    show_facts(_facts(report), stream)


def _pass_row(total: PassTotal) -> list[str]:
    counts = (total.matched, total.effected, total.matched - total.effected)
    return [total.kind, total.name, *map(str, counts), f"{total.seconds * 1000:.1f}"]


def _changed_counts(report: Report) -> Iterator[list[str]]:
    """The operators whose number differs between the model and the result. Areas come last."""
    names = report.operators_before.keys() | report.operators_after.keys()
    for name in [*sorted(names - report.areas.keys()), *report.areas]:
        before = report.operators_before.get(name, 0)
        after = report.operators_after.get(name, 0)
        if before != after:
            yield [report.areas.get(name, name), str(before), str(after)]


def show_outputs(outputs: Sequence[OutputErrors], stream: TextIO) -> None:
    """Show how far each output is from the reference at each level of onnxruntime's optimizers. If
    the outputs are many, only the worst are shown.
    """
    rows = output_rows(outputs)
    show_table(OUTPUT_HEADERS, rows, stream)
    if len(rows) < len(outputs):
        print(f"… and {len(outputs) - len(rows)} more, none worse", file=stream)
    show_text(_UNLISTED, stream)


def output_rows(outputs: Sequence[OutputErrors]) -> list[list[str]]:
    """The cells under OUTPUT_HEADERS, for the outputs that are farthest from the reference."""
    worst = (
        sorted(outputs, key=lambda row: row.cosine)[:_MAX_OUTPUTS]
        if len(outputs) > _MAX_OUTPUTS
        else outputs
    )
    return [
        [
            row.output,
            _OPTIMIZERS.get(row.level, row.level),
            str(row.samples),
            f"{row.max_abs:.2g}",
            f"{row.max_rel:.2g}",
            f"{row.cosine:.9f}",
            row.worst,
        ]
        for row in worst
    ]


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Print rows under headers. A header that begins with ">" means a column of numbers."""
    rows = [list(map(printable, row)) for row in rows]
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
    """Print one name and value per line, with the values aligned. In a terminal long values are
    wrapped and indented.
    """
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        first = f"{name.ljust(width)}  "
        kept = _UNIT.sub(_KEPT, printable(value))
        text = _wrapped(first, kept, " " * len(first), _width(stream))
        print(text.replace(_KEPT, " "), file=stream)


def show_text(text: str, stream: TextIO) -> None:
    """Print lines. In a terminal long lines are wrapped and indented. If a line begins with a label
    and blanks, its further lines are indented to the text after the label.
    """
    for line in text.splitlines():
        label = re.match(r"\S*\s{2,}|", line)
        first = label.group() if label is not None else ""
        print(
            _wrapped(first, line.removeprefix(first), " " * len(first), _width(stream)), file=stream
        )


def size_text(count: int) -> str:
    """A number of bytes in short form: 1536 is "1.5 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def count_text(count: int) -> str:
    """A number in short form: 300774272 is "300.8 million"."""
    for limit, word in ((10**9, " billion"), (10**6, " million")):
        if count >= limit:
            return f"{count / limit:.1f}{word}"
    return f"{count:,}"


def cost_text(cost: RunCost) -> str:
    """What a run costs, in short form. Open and unknown sizes are mentioned."""
    at_least = "at least " * bool(cost.unknown)
    text = (
        f"{at_least}{count_text(cost.macs)} MACs, {size_text(cost.weight_bytes)} of weights, "
        f"{at_least}{size_text(cost.value_bytes)} for values"
    )
    if cost.sized_by and not cost.is_open:
        return f"{text} (at the first size of {cost.sized_by})"
    return f"{text} (with 1 for each open size)" if cost.is_open else text


def percent_text(before: int, after: int) -> str:
    """The change between two different numbers. `before` is not 0."""
    percent = f"{100 * (after - before) / before:+.1f}"
    return f"{percent} %" if float(percent) else "< 0.1 %"


def _facts(report: Report) -> list[tuple[str, str]]:
    facts = [
        ("nodes", f"{report.nodes_before} -> {report.nodes_after}"),
        ("size", f"{size_text(report.bytes_before)} -> {size_text(report.bytes_after)}"),
        *([] if report.cost is None else [("cost", cost_text(report.cost))]),
        ("verification", _verification(report)),
        *(("notice", notice) for notice in report.notices),
        *(("in float32", name) for name in report.in_float32),
    ]
    files = {
        "log": report.log_file,
        "counts": report.counts,
        "output": report.output,
        "kernels": report.kernels,
        "ready": report.ready,
        "report": report.page,
    }
    switches = {"counts": "; --export_compile_stat=0 does not write it"}
    facts += [
        (name, f"{file}{switches.get(name, '')}")
        for name, file in files.items()
        if file is not None
    ]
    seconds = {stage: f"{time:.2f}" for stage, time in report.stages.items()}
    stages = ", ".join(f"{stage} {text}" for stage, text in seconds.items() if text != "0.00")
    facts.append(("time", f"{report.seconds:.2f} s" + (f" ({stages})" if stages else "")))
    return [*facts, *(("next", step) for step in _next_steps(report))]


def _verification(report: Report) -> str:
    if report.unverified:
        return NOT_VERIFIED.rstrip(": ")  # the last line of the command says why
    return report.verification or "skipped"


def _next_steps(report: Report) -> Iterator[str]:
    """Which operators other runtimes lack, and how to use the kernels of the result. If the result
    has no kernels: how to get some, if they are possible.
    """
    if report.runtime_operators:
        yield (
            f"the result uses operators of onnxruntime: {', '.join(report.runtime_operators)}; "
            "--target onnx avoids them"
        )
    session = f"fusionc.session({json.dumps(str(report.output), ensure_ascii=False)})"
    if report.kernels is not None:
        library = json.dumps(str(report.kernels), ensure_ascii=False)
        yield (
            f"{session} loads the model with its kernels; without fusionc: "
            f"SessionOptions.register_custom_ops_library({library})"
        )
    elif report.may_get_kernels and not report.unverified and _has_products(report.cost):
        yield from _how_to_get_kernels(report.kernel_gain, session)


def _has_products(cost: RunCost | None) -> bool:
    """Whether a run may multiply matrices: a model without products takes too little time."""
    return cost is None or cost.macs > 0 or cost.unknown > 0


def _how_to_get_kernels(gain: KernelGain | None, session: str) -> Iterator[str]:
    """What generated kernels would gain and how to get them; nothing if the estimate is that they
    gain nothing. `session` is the Python call that
    loads the result with its kernels.
    """
    what = "generated kernels may make the model faster"
    if gain is not None and not gain.percent:
        return
    if gain is not None:
        what = (
            f"by an estimate that is mostly too low, generated kernels save {gain.percent} % of "
            f"the time of {gain.operators} of the {gain.of_operators} operators"
        )
    yield f"{what}: convert with --enable_graph_kernel, and load the result with {session}"
    if has_bfloat16() and (gain is None or gain.has_products):
        yield (
            "this processor multiplies bfloat16 numbers faster and less exactly: with kernels, "
            "--precision_mode_v2=mixed_bfloat16 makes use of it"
        )


def _show_in_terminal(
    headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO
) -> None:
    """Print a table if the terminal is wide enough, and otherwise a paragraph for each row. Lines
    are broken only in the last column, and only if it is text: a name that is broken into two lines
    cannot be copied.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    # [brackets] and :colons: in names and reasons are not markup.
    console = Console(
        file=stream,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None
        if "NO_COLOR" in os.environ
        else "auto",  # `None` also means no bold headers
    )
    names = [header.lstrip(">") for header in headers]
    widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    is_text = not headers[-1].startswith(">")
    gap = _gap(widths, console.width, is_text)
    if gap is None:
        for row in rows:
            for line in _paragraph(headers, row, console.width):
                print(line, file=stream)
        return
    if is_text:
        room = console.width - sum(widths[:-1]) - gap * (len(widths) - 1)
        widths[-1] = max(min(widths[-1], room), 1)
    # the box adds one blank between columns
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for header, name, width in zip(headers, names, widths, strict=True):
        justify: JustifyMethod = "right" if header.startswith(">") else "left"
        # rich measures only the longest word of a header, so it would crop the other words
        table.add_column(name, justify=justify, overflow="fold", width=width)
    for row in rows:
        table.add_row(*row)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip(), file=stream)


def _gap(widths: Sequence[int], width: int, is_text: bool) -> int | None:
    """The number of blanks between columns of these widths. None if the columns do not fit into
    `width`. If the last column `is_text`, it may be narrower than its text.
    """
    last = min(widths[-1], _MIN_TEXT_WIDTH) if is_text else widths[-1]
    room = width - sum(widths[:-1]) - last
    return next((gap for gap in (2, 1) if gap * (len(widths) - 1) <= room), None)


def _paragraph(headers: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """A row as lines: first its names, then its numbers with their headers, then its text."""
    numbers = [at for at, header in enumerate(headers) if header.startswith(">")]
    names = range(numbers[0] if numbers else len(headers) - 1)
    yield _wrapped("", "  ".join(row[at] for at in names), _INDENT, width)
    # a line is not broken between a number and its header
    facts = [
        f"{headers[at].lstrip('>')} {row[at]}".replace(" ", _KEPT) for at in numbers if row[at]
    ]
    text = row[-1] if len(headers) - 1 not in (*names, *numbers) else ""
    if text:
        facts.append(f"{headers[-1]} {text}" if facts else text)
    if facts:
        yield _wrapped(_INDENT, ", ".join(facts), 2 * _INDENT, width).replace(_KEPT, " ")


def _wrapped(first: str, text: str, further: str, width: int | None) -> str:
    """The text, wrapped between words, with `first` before the first line and `further` before all
    other lines.
    """
    if width is None:
        return f"{first}{text}".rstrip()
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) or first.rstrip()


def _width(stream: TextIO) -> int | None:
    """The width of the terminal. None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
