"""A plot of the worth of each change: an SVG file that shows each ratio as a mark on a line between
its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
_TOP = 84
_MAX_ROWS = 60
# The axis shows ratios that differ from 1 by at most this. A line that goes beyond the axis has a
# mark.
_MAX_REACH = 1.0
# The states differ without colours, too: the mark of an undecided change is hollow.
_STATES = ("pays", "costs", "undecided")
_MARKS = {
    "pays": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",  # a circle
    "costs": "M-4.5 -4.5H4.5V4.5H-4.5Z",  # a square
    "undecided": "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",  # a diamond
}
_KEY = "● faster  ■ slower  ◇ undecided  → beyond the scale"
_STYLE = """
text{font:12px sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:bold}.n{fill:#59636e}
.paper{fill:#fff}.grid{stroke:#d0d7de}.one{stroke:#1f2328}.pays{fill:#1a7f37;stroke:#1a7f37}
.costs{fill:#cf222e;stroke:#cf222e}.undecided{fill:#fff;stroke:#59636e}line,path{stroke-width:2}
.grid,.one{stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.n{fill:#9198a1}.paper{fill:#0d1117}
.grid{stroke:#30363d}.one{stroke:#f0f6fc}.pays{fill:#56d364;stroke:#56d364}
.costs{fill:#ff7b72;stroke:#ff7b72}.undecided{fill:#0d1117;stroke:#9198a1}}
"""


@dataclass(frozen=True)
class _Row:
    label: str
    interval: RatioInterval
    state: str  # one of _STATES


def worth_plot(model: str, worths: Sequence[Worth], last: Confirmation, confidence: float) -> str:
    """The text of the SVG file: the last run, and below it the measured changes, at most _MAX_ROWS
    rows.
    """
    rows = [_Row(label, interval, _state(interval)) for label, interval in _last_run(last)]
    for worth in worths:
        interval = worth.interval(confidence)
        if interval is not None and len(rows) < _MAX_ROWS:
            state = worth.state if worth.state in _STATES else "undecided"
            rows.append(_Row(worth.change.title, interval, state))
    confident = f"with a confidence of {100 * confidence:g} %"
    note = f"The bounds hold {confident}: all together in the last run, otherwise each one alone"
    return _svg(f"{model}: ratios of run times, lower is faster", note, rows)


def _last_run(last: Confirmation) -> list[tuple[str, RatioInterval]]:
    rows = [("last run: default / original", last.default)]
    if last.against_default is not None:
        rows = [
            ("last run: tuned / original", last.against_original),
            ("last run: tuned / default", last.against_default),
            *rows,
        ]
    return rows


def _state(interval: RatioInterval) -> str:
    return "pays" if interval.is_faster else "costs" if interval.is_slower else "undecided"


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
        f'<text class="n" x="12" y="52">{_KEY}</text>',
    ]
    bottom = height - 12
    for step in range(-2, 3):
        ratio = 1 + step * reach / 2
        x = place(ratio)
        line = "grid" if step else "one"
        parts += [
            f'<line class="{line}" x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{bottom}"/>',
            f'<text class="n" x="{x:.1f}" y="{_TOP - 16}" text-anchor="middle">{ratio:.3f}</text>',
        ]
    for number, row in enumerate(rows):
        parts += _drawn(row, _TOP + _ROW_HEIGHT * number + 8, place, reach)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    label = f'role="img" aria-label="{html_text(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {label} {size}>'
    background = '<rect width="100%" height="100%" class="paper"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", background, *parts, "</svg>\n"])


def _drawn(row: _Row, y: int, place: Callable[[float], float], reach: float) -> Iterator[str]:
    """A row: its label, its bounds and its mark. Arrows say that bounds or mark are beyond the
    scale.
    """
    one = row.interval
    yield (
        f'<text x="{_LABEL_WIDTH - 18}" y="{y + 4}" text-anchor="end">'
        f"{html_text(_short(row.label))}</text>"
    )
    ends = f'x1="{place(one.low):.1f}" y1="{y}" x2="{place(one.high):.1f}" y2="{y}"'
    yield f'<line class="{row.state}" {ends}/>'
    yield (
        f'<path class="{row.state}" d="{_MARKS[row.state]}" '
        f'transform="translate({place(one.ratio):.1f} {y})">'
        f"<title>{html_text(row.label)}: {one}</title></path>"
    )
    if one.high > 1 + reach:
        yield f'<text x="{_WIDTH - _RIGHT_MARGIN + 8}" y="{y + 4}">→</text>'
    if one.low < 1 - reach:
        yield f'<text x="{_LABEL_WIDTH - 14}" y="{y + 4}">←</text>'


def _short(label: str) -> str:
    return label if len(label) <= 52 else f"{label[:51]}…"
