"""The chart of README.md: one bar for each optimizer, from the table of means of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

_WIDTH = 760  # pixels
_ROW = 26  # pixels from one bar to the next
_TOP = 44  # pixels above the first bar
_LEFT = 190  # pixels for the names
_SCALE = 400  # pixels for a ratio of 1
# GitHub and browsers choose by the reader's setting. The bars differ without colours, too: those of
# fusionc are filled, the others are outlined.
_STYLE = """<style>
text { font: 13px sans-serif; fill: #1f2328 } .own { fill: #0969da } .one { stroke: #1f2328 }
.other { fill: none; stroke: #59636e } .strong { font-weight: bold } .paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .own { fill: #4493f8 } .one { stroke: #f0f6fc }
.other { stroke: #9198a1 } .paper { fill: #0d1117 } }
</style>"""


def ratios(table: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Each optimizer with its run time as a ratio to the original's, from the lines of a table."""
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2 and cells[2].replace(".", "", 1).isdigit():
            yield cells[0], float(cells[2])


def chart(rows: Iterable[tuple[str, float]], title: str) -> str:
    """An SVG of the rows, the fastest first."""
    sorted_rows = sorted([*rows, ("the original model", 1.0)], key=lambda row: row[1])
    height = _TOP + _ROW * len(sorted_rows) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        _STYLE,
        '<rect width="100%" height="100%" class="paper"/>',
        f'<text x="10" y="22" class="strong">{escape(title)}</text>',
    ]
    for number, (name, ratio) in enumerate(sorted_rows):
        lines += _bar(name, ratio, _TOP + _ROW * number)
    one = _LEFT + _SCALE
    lines += [f'<line x1="{one}" x2="{one}" y1="{_TOP - 6}" y2="{height - 6}" class="one"/>']
    return "\n".join([*lines, "</svg>"]) + "\n"


def _bar(name: str, ratio: float, y: int) -> Iterator[str]:
    is_own = name.startswith("fusionc")
    weight = ' class="strong"' if is_own else ""
    width = round(_SCALE * ratio)
    yield f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end"{weight}>{escape(name)}</text>'
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{width}" height="18" '
        f'class="{"own" if is_own else "other"}"/>'
    )
    right = _LEFT + max(width, _SCALE) + 8
    yield f'<text x="{right}" y="{y + 13}"{weight}>{ratio:.2f}</text>'
