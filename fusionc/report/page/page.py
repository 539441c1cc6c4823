"""The page as text: the template, filled in. All text of others is escaped: names of nodes may hold
anything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from itertools import groupby
from string import Template

from fusionc.report.page.drawing import svg
from fusionc.report.page.html_text import html_text
from fusionc.report.page.measured_times import MeasuredTimes
from fusionc.report.page.rewrites import Alike
from fusionc.report.page.sketch import VALUE, Sketch
from fusionc.report.report import PassTotal, Report
from fusionc.report.table import OUTPUT_HEADERS, output_rows, size_text
from fusionc.rewrite.definition import Pass
from fusionc.version import __version__

_MOST_DRAWN = 900_000  # characters of drawings; a page that is larger opens slowly
_MOST_NAMES = 500_000  # characters of names of nodes
_MOST_PLACES = 200  # of a group
_COLUMN = 430  # pixels of drawings that fit into one of two columns
# an operator, its nodes and seconds in both models
_TimesRow = tuple[str, tuple[float, float], tuple[float, float]]
_NOISE = 0.03  # of a time, at least


def page_text(
    report: Report,
    passes: Sequence[Pass],
    groups: Sequence[Alike],
    times: MeasuredTimes,
    failure: str = "",
) -> str:
    """The page on one conversion, with the passes that ran, the rewrites that are alike, and the
    times; `failure` is what to say of one whose result is wrong.
    """
    template = Template((files("fusionc.report.page") / "page.html").read_text(encoding="utf-8"))
    script = (files("fusionc.report.page") / "search.js").read_text(encoding="utf-8")
    names = [
        html_text(path.name if path is not None else "") for path in (report.model, report.output)
    ]
    known = {p.name: p for p in passes} | {group.pass_.name: group.pass_ for group in groups}
    idle = [total.name for total in report.passes() if not total.matched]
    return template.substitute(
        title=f"{names[0]} → {'nothing' if failure else names[1]}",
        heading=f"{names[0]} <i>→</i> {'nothing was written' if failure else names[1]}",
        version=__version__,
        libraries=", ".join(f"{name} {metadata.version(name)}" for name in ("onnx", "onnxruntime")),
        script=script,
        script_hash=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        cards="".join(_cards(report, times)),
        verdict=_verdict(report.verification, failure) + _outputs(report, is_open=bool(failure)),
        notices="".join(
            f'<p class="soft">Notice: {html_text(notice)}</p>' for notice in report.notices
        ),
        passes_text=(
            "In the order in which they ran. What was found was rewritten, or refused for the "
            "reason below it."
        ),
        passes=_passes(report, known, groups) + _list_of(f"{len(idle)} passes found nothing", idle),
        rewrites_text=_rewrites_text(report, groups),
        rewrites="".join(_articles(groups)),
        operators=_operators(report),
        times_text=_times_text(times),
        times=_times(times),
    )


def _table(headers: Sequence[str], rows: Iterable[str]) -> str:
    """Headers that begin with ">" are those of numbers."""
    cells = [
        f'<th class="n">{h[1:]}</th>' if h.startswith(">") else f"<th>{h}</th>" for h in headers
    ]
    return f'<div class="scroll"><table><tr>{"".join(cells)}</tr>{"".join(rows)}</table></div>'


def _row(cells: Sequence[str]) -> str:
    """A row that can be found; cells that begin with ">" are numbers."""
    row = [
        f'<td class="n">{cell[1:]}</td>' if cell.startswith(">") else f"<td>{cell}</td>"
        for cell in cells
    ]
    return f"<tr data-item>{''.join(row)}</tr>"


def _list_of(summary: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f'<span class="name">{html_text(name)}</span>' for name in names)
    return f"<details data-item><summary>{summary}</summary><p>{listed}</p></details>"


def _cards(report: Report, times: MeasuredTimes) -> Iterator[str]:
    nodes = (report.nodes_before, report.nodes_after)
    sizes = (report.bytes_before, report.bytes_after)
    yield _card("Nodes", f"{nodes[0]:,} <i>→</i> {nodes[1]:,}", _change(*nodes))
    if times.before is not None and times.after is not None:
        seconds = (times.before.seconds, times.after.seconds)
        text = f"{_milliseconds(seconds[0])} <i>→</i> {_milliseconds(seconds[1])} ms"
        yield _card("One run in onnxruntime", text, _speed(*seconds, max(_NOISE, times.noise)))
    if sizes[1]:
        yield _card("Size on disk", " <i>→</i> ".join(map(size_text, sizes)), _change(*sizes))
    busy = sum(total.effected > 0 for total in report.passes())
    yield _card("Rewrites", f"{report.effected:,}", f"by {busy} of {len(report.passes())} passes")


def _card(title: str, value: str, note: str) -> str:
    return f'<div class="card"><small>{title}</small><b>{value}</b><small>{note}</small></div>'


def _change(before: int, after: int) -> str:
    if not before or before == after:
        return "as before"
    return f'<span class="{"down" if after < before else "up"}">{100 * (after - before) / before:+.1f} %</span>'


def _speed(before: float, after: float, noise: float) -> str:
    if abs(before - after) <= noise * min(before, after):
        return f"no difference beyond noise, which is {100 * noise:.0f} % here"
    if before > after:
        return f'<span class="down">{before / after:.2f} times as fast</span>'
    return f'<span class="up">takes {after / before:.2f} times as long</span>'


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _verdict(verification: str | None, failure: str) -> str:
    if failure:
        return f'<pre class="verdict bad">{"<br>".join(map(html_text, failure.splitlines()))}</pre>'
    if verification is None:
        return '<p class="verdict odd">Not verified: it was switched off.</p>'
    kind = "odd" if verification.startswith(("not verified", "verified in part")) else "good"
    return f'<p class="verdict {kind}">{"Verified: " if kind == "good" else ""}{html_text(verification)}</p>'


def _outputs(report: Report, *, is_open: bool) -> str:
    """How far each output was off, folded away unless that is what the reader looks for."""
    numbers = [header.startswith(">") for header in OUTPUT_HEADERS]
    rows = [
        _row(
            [
                f">{html_text(cell)}" if is_number else html_text(cell)
                for cell, is_number in zip(row, numbers, strict=True)
            ]
        )
        for row in output_rows(report.outputs)
    ]
    if not rows:
        return ""
    summary = (
        "how far each output was off"
        if len(rows) == len(report.outputs)
        else "the outputs that were off most"
    )
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{_table(OUTPUT_HEADERS, rows)}</details>"


def _passes(report: Report, known: Mapping[str, Pass], groups: Sequence[Alike]) -> str:
    first = {group.pass_.name: at for at, group in reversed(list(enumerate(groups)))}
    rows = [
        _pass_row(total, known, first.get(total.name)) for total in report.passes() if total.matched
    ]
    if not rows:
        return '<p class="soft">No pass found anything.</p>'
    return _table(["pass", "kind", ">found", ">rewritten", ">refused", ">ms"], rows)


def _pass_row(total: PassTotal, known: Mapping[str, Pass], place: int | None) -> str:
    name = f"<b>{html_text(total.name)}</b>"
    if place is not None:
        name = f'<a href="#g{place}">{name}</a>'
    summary = f"<br>{html_text(known[total.name].summary)}" if total.name in known else ""
    reasons = "".join(
        f"<li>{times} refused: {html_text(reason)}</li>" for reason, times in total.refused.items()
    )
    listed = f'<ul class="soft">{reasons}</ul>' if reasons else ""
    numbers = [
        f">{count:,}" for count in (total.matched, total.effected, total.matched - total.effected)
    ]
    kind = f'<span class="tag">{html_text(total.kind)}</span>'
    return _row([name + summary + listed, kind, *numbers, f">{total.seconds * 1000:.1f}"])


def _rewrites_text(report: Report, groups: Sequence[Alike]) -> str:
    if not groups:
        return "Nothing."
    return (
        f"{report.effected:,} rewrites of {len(groups)} forms, in the order of the first of "
        "each. Left is what was in "
        "the model then, right what took its place; rewrites that differ in names and sizes "
        "alone are drawn once."
    )


def _articles(groups: Sequence[Alike]) -> Iterator[str]:
    """The forms as drawings, with the places of each, as long as there is room for them."""
    drawn = named = 0
    for number, group in enumerate(groups):
        pictures, width = _pictures(group) if drawn < _MOST_DRAWN else (_in_words(group), 0.0)
        drawn += len(pictures)
        places = _places(group) if named < _MOST_NAMES else ""
        named += len(places)
        yield (
            f'<article id="g{number}"{" class=wide" if width > _COLUMN else ""} data-item>'
            f'<h3>{html_text(group.pass_.name)} <span class="tag">{len(group.commits):,} ×</span></h3>'
            f'<span class="tag">pattern {html_text(group.pattern)}</span> '
            f'<span class="tag">rewrite{"s" if len(group.commits) > 1 else ""} {_numbers(group)}</span>'
            f'<p class="soft">{html_text(group.pass_.summary)}</p>{pictures}{places}</article>'
        )


def _pictures(group: Alike) -> tuple[str, float]:
    """Both drawings and their width."""
    before, width = svg(group.before, f"before: {_operators_of(group.before)}")
    after, its_width = svg(group.after, f"after: {_operators_of(group.after)}")
    pair = (
        f'<div class="pair"><div class="side"><small>before</small>{before}</div><div class="to">→</div>'
        f'<div class="side"><small>after</small>{after}</div></div>'
    )
    return pair, width + its_width


def _in_words(group: Alike) -> str:
    return (
        f"<p>{html_text(_operators_of(group.before))} → {html_text(_operators_of(group.after))}</p>"
    )


def _operators_of(sketch: Sketch) -> str:
    return ", ".join(item.text for item in sketch.items if item.kind != VALUE) or "nothing"


def _numbers(group: Alike) -> str:
    """The numbers of the rewrites, those that follow one another as 3–7."""
    runs = []
    for _, run in groupby(
        enumerate(commit.number for commit in group.commits), lambda pair: pair[1] - pair[0]
    ):
        numbers = [number for _, number in run]
        runs.append(f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(runs[:6]) + (f" and {len(runs) - 6} more" if len(runs) > 6 else "")


def _places(group: Alike) -> str:
    rows = []
    for commit, made in list(zip(group.commits, group.made, strict=True))[:_MOST_PLACES]:
        sides = [
            ", ".join(names) or "nothing"
            for names in (commit.nodes, [node.label() for node in made])
        ]
        rows.append(
            f'<li value="{commit.number}"><span class="name">{html_text(sides[0])} → {html_text(sides[1])}</span></li>'
        )
    left = len(group.commits) - len(rows)
    more = f"<p>and {left:,} more</p>" if left else ""
    count = f"{len(group.commits):,} places" if len(group.commits) > 1 else "the nodes by name"
    return f"<details><summary>{count}</summary><ol>{''.join(rows)}</ol>{more}</details>"


def _operators(report: Report) -> str:
    before = report.operators_before
    after = report.operators_after
    names = sorted(
        before.keys() | after.keys(), key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n)
    )
    most = max([*before.values(), *after.values(), 1])
    rows = []
    for name in names:
        counts = before.get(name, 0), after.get(name, 0)
        change = f">{counts[1] - counts[0]:+,}" if counts[0] != counts[1] else ">"
        rows.append(
            _row(
                [
                    html_text(name),
                    f">{counts[0]:,}",
                    f">{counts[1]:,}",
                    change,
                    _bars(*counts, most),
                ]
            )
        )
    return _table(["operator", ">before", ">after", ">change", _KEY], rows)


_KEY = '<span class="key before"></span>before<span class="key after"></span>after'


def _bars(before: float, after: float, most: float) -> str:
    widths = [100 * value / most if most else 0.0 for value in (before, after)]
    bars = [
        f'<span class="{kind}" style="width:{width:.1f}%"></span>'
        for kind, width in zip("ba", widths, strict=True)
    ]
    return f'<div class="bar">{"".join(bars)}</div>'


def _times_text(times: MeasuredTimes) -> str:
    if times.before is None or times.after is None:
        return f"Not measured: {html_text(times.failure)}."
    runs = f"{times.before.runs} and {times.after.runs} runs, the faster half of all"
    noise = (
        f" Two measurements of the same model differed by {100 * times.noise:.0f} %."
        if times.noise
        else ""
    )
    return (
        f"Of one run, on average of {runs}, in onnxruntime at its default settings on this "
        "machine, with inputs that "
        f"fusionc has drawn or was given ({html_text(times.label)}). onnxruntime optimizes both "
        "models itself first: "
        "these are the operators that it runs then. What is left between them is its own; the "
        "sum is the whole run."
        f"{noise}"
    )


def _longest(row: _TimesRow) -> float:
    return max(row[1][1], row[2][1])


def _times(times: MeasuredTimes) -> str:
    if times.before is None or times.after is None:
        return ""
    sides = (times.before, times.after)
    names = {**times.before.operators, **times.after.operators}
    one, other = (side.operators for side in sides)
    rows: list[_TimesRow] = [
        (html_text(name), one.get(name, (0.0, 0.0)), other.get(name, (0.0, 0.0))) for name in names
    ]
    rows.sort(key=_longest, reverse=True)
    rows.append(
        ("<i>between operators</i>", (0.0, times.before.between), (0.0, times.after.between))
    )
    most = max(map(_longest, rows))
    lines = []
    for name, before, after in rows:
        nodes = [f">{count:,.0f}" if count else ">" for count in (before[0], after[0])]
        seconds = [f">{_milliseconds(value)}" for value in (before[1], after[1])]
        lines.append(_row([name, *nodes, *seconds, _bars(before[1], after[1], most)]))
    total = [f">{_milliseconds(side.seconds)}" for side in sides]
    lines.append(_row(["<b>one run</b>", ">", ">", *total, ""]))
    return _table(["operator", ">nodes before", ">after", ">ms before", ">after", _KEY], lines)
