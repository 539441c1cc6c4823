"""A plot of the worth of each change: an SVG file that shows each ratio as a dot on a line between
its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from fusionc.bench.intervals import RatioInterval
from fusionc.report.page.html_text import html_text
from fusionc.tune.confirmation import Confirmation
from fusionc.tune.decisions import Worth

# lengths, in pixels
_WIDTH = 900
_LABEL_WIDTH = 380
_RIGHT_MARGIN = 30
_ROW_HEIGHT = 20
_TOP = 64
_MAX_ROWS = 60
# The axis shows ratios that differ from 1 by at most this. A line that goes beyond the axis has a
# mark.
_MAX_REACH = 1.0
_COLOURS = {"pays": "#1a7f37", "costs": "#cf222e", "undecided": "#8c959f"}
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:bold}.n{fill:#656d76}"
)


@dataclass(frozen=True)
class _Row:
    label: str
    interval: RatioInterval
    colour: str


def worth_plot(model: str, worths: Sequence[Worth], last: Confirmation, confidence: float) -> str:
    """The text of the SVG file: the last run, and below it the measured changes, at most _MAX_ROWS
    rows.
    """
    rows = [_Row(label, interval, _colour(interval)) for label, interval in _last_run(last)]
    for worth in worths:
        interval = worth.interval(confidence)
        if interval is not None and len(rows) < _MAX_ROWS:
            rows.append(
                _Row(worth.change.title, interval, _COLOURS.get(worth.state, _COLOURS["undecided"]))
            )
    confident = f"with a confidence of {100 * confidence:g} %"
    note = f"The bounds hold {confident}: all together in the last run, otherwise each one alone"
    return _svg(f"{model}: ratios of run times", note, rows)


def _last_run(last: Confirmation) -> list[tuple[str, RatioInterval]]:
    rows = [("last run: default / original", last.default)]
    if last.against_default is not None:
        rows = [
            ("last run: tuned / original", last.against_original),
            ("last run: tuned / default", last.against_default),
            *rows,
        ]
    return rows


def _colour(interval: RatioInterval) -> str:
    return _COLOURS[
        "pays" if interval.is_faster else "costs" if interval.is_slower else "undecided"
    ]


def _svg(title: str, note: str, rows: Sequence[_Row]) -> str:
    bounds = [
        edge for row in rows for edge in (row.interval.low, row.interval.high, row.interval.ratio)
    ]
    reach = max((abs(edge - 1) for edge in bounds if isfinite(edge) and edge), default=0.0)
    reach = min(_MAX_REACH, max(0.02, 1.1 * reach))

    def place(ratio: float) -> float:
        part = (min(max(ratio, 1 - reach), 1 + reach) - 1 + reach) / (2 * reach)
        return _LABEL_WIDTH + part * (_WIDTH - _LABEL_WIDTH - _RIGHT_MARGIN)

    height = _TOP + _ROW_HEIGHT * len(rows) + 16
    parts = [
        f'<text class="t" x="12" y="20">{html_text(title)}</text>',
        f'<text class="n" x="12" y="36">{html_text(note)}</text>',
    ]
    bottom = height - 12
    for step in range(-2, 3):
        ratio = 1 + step * reach / 2
        x = place(ratio)
        colour = "#1f2328" if not step else "#d0d7de"
        parts += [
            f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>',
            f'<text class="n" x="{x:.1f}" y="{_TOP - 16}" text-anchor="middle">{ratio:.3f}</text>',
        ]
    for number, row in enumerate(rows):
        y = _TOP + _ROW_HEIGHT * number + 8
        one = row.interval
        label = html_text(_short(row.label))
        ends = f'x1="{place(one.low):.1f}" y1="{y}" x2="{place(one.high):.1f}" y2="{y}"'
        parts += [
            f'<text x="{_LABEL_WIDTH - 12}" y="{y + 4}" text-anchor="end">{label}</text>',
            f'<line {ends} stroke="{row.colour}" stroke-width="2"/>'
            f'<circle cx="{place(one.ratio):.1f}" cy="{y}" r="4" fill="{row.colour}">'
            f"<title>{html_text(row.label)}: {one}</title></circle>",
        ]
        if one.high > 1 + reach:
            parts.append(f'<text x="{_WIDTH - _RIGHT_MARGIN + 4}" y="{y + 4}">›</text>')
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    label = f'role="img" aria-label="{html_text(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {label} {size}>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", background, *parts, "</svg>\n"])


def _short(label: str) -> str:
    return label if len(label) <= 52 else f"{label[:51]}…"
