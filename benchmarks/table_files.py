"""Write the measurements of table.py as Markdown, as CSV and as a drawing.

python benchmarks/table_files.py docs/measured/models     # draw models.svg again from models.csv
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

TITLES = {
    "fusionc": "fusionc",
    "kernels": "fusionc, kernels",
    "verified": "fusionc, verified",
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
    "onnxscript": "onnxscript",
    "onnxoptimizer": "onnxoptimizer",
    "onnxruntime_basic": "onnxruntime, basic",
    "onnxruntime_extended": "onnxruntime, extended",
    "onnxruntime_all": "onnxruntime, all",
    "transformers": "onnxruntime.transformers",
    "openvino": "OpenVINO",
}
# Forms that are drawn, each with its mark: forms differ without colours, too. The marks are paths
# around (0, 0); those of fusionc are filled.
DRAWN = {
    "fusionc": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",  # a circle
    "kernels": "M0 -5L5 0L0 5L-5 0Z",  # a diamond
    "openvino": "M-4 4L0 -4L4 4Z",  # a triangle
    "onnxsim": "M-4 -4L4 4M-4 4L4 -4",  # a cross
    "onnxslim": "M-5 0L5 0M0 -5L0 5",  # a plus
}
STYLE = """<style>
text { font: 11px sans-serif; fill: #1f2328 } .soft { fill: #59636e } .paper { fill: #ffffff }
.grid { stroke: #d8dee4 } .one { stroke: #1f2328 } path { fill: none; stroke-width: 1.4 }
.fusionc { fill: #0969da; stroke: #0969da } .kernels { fill: #cf222e; stroke: #cf222e }
.openvino { stroke: #1a7f37 } .onnxsim { stroke: #9a6700 } .onnxslim { stroke: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .soft { fill: #9198a1 } .paper { fill: #0d1117 }
.grid { stroke: #30363d } .one { stroke: #f0f6fc }
.fusionc { fill: #4493f8; stroke: #4493f8 } .kernels { fill: #ff7b72; stroke: #ff7b72 }
.openvino { stroke: #56d364 } .onnxsim { stroke: #e3b341 } .onnxslim { stroke: #9198a1 } }
</style>"""

# pixels
LEFT = 230
TOP = 68
WIDTH = 560
LINE = 16
END = 1.6  # the ratio at the right edge; slower forms are beyond it, with an arrow
# an area is one operator, and its function has the nodes of the area
WITHOUT_NODES = ("kernels",)


@dataclass
class Form:
    """The result of one optimizer for a model: nodes; seconds, processor seconds and peak bytes of
    the process; the fault, or why there is no result; the run time as a ratio to the model's; the
    seconds to create a session. 0 means unknown.
    """

    nodes: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    peak: int = 0
    fault: str = ""
    ratio: float = 0.0
    load: float = 0.0


@dataclass
class Row:
    """A model: its nodes, bytes and run time, the ratio of an A/A pair, and the results for it."""

    name: str
    nodes: int = 0
    size: int = 0
    milliseconds: float = 0.0
    again: float = 0.0
    load: float = 0.0
    fault: str = ""
    forms: dict[str, Form] = field(default_factory=dict)

    @staticmethod
    def of(data: dict[str, Any]) -> Row:
        return Row(**data | {"forms": {name: Form(**form) for name, form in data["forms"].items()}})

    def data(self) -> dict[str, Any]:
        return asdict(self)

    def best(self, names: Iterable[str]) -> str:
        """The optimizer whose result has the shortest run time. Empty if there are no run times."""
        timed = [name for name in names if name in self.forms and self.forms[name].ratio]
        return min(timed, key=lambda name: self.forms[name].ratio, default="")


NO_OTHERS = ("fusionc", "kernels", "verified", "openvino")  # which is no optimizer


def write(rows: Sequence[Row], results: Path, machine: str) -> None:
    Path(f"{results}.md").write_text(markdown(rows, machine))
    Path(f"{results}.svg").write_text(drawing(rows, machine))
    with Path(f"{results}.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["model", "optimizer", *Form.__dataclass_fields__])
        for row in rows:
            own = Form(nodes=row.nodes, ratio=row.again, load=row.load, fault=row.fault)
            for name, form in ({"original": own} | row.forms).items():
                lines.writerow([row.name, name, *asdict(form).values()])


def markdown(rows: Sequence[Row], machine: str) -> str:
    """The means of each optimizer, and then the models."""
    run = [row for row in rows if row.milliseconds]
    lines = [
        f"{len(run)} models; {machine}. Geometric means of ratios to the original, A/A "
        f"{_mean(r.again for r in run)}; "
        "time and memory to convert are of whole processes, as ratios to those of fusionc.",
        "",
        (
            "| optimizer | nodes | run time | slower than 1.01 | time to convert | peak memory | "
            "wrong | fails |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *(_means(name, run) for name in TITLES if any(name in row.forms for row in run)),
        "",
        "| model | ms | nodes | fusionc | run time | kernels | best other | of | OpenVINO |",
        "|---|--:|--:|--:|--:|--:|--:|---|--:|",
        *map(_line, run),
    ]
    return "\n".join([*lines, *(f"\n{row.name}: {row.fault}" for row in rows if row.fault), ""])


def _means(name: str, rows: Sequence[Row]) -> str:
    pairs = [(row, row.forms[name]) for row in rows if name in row.forms]
    right = [(row, form) for row, form in pairs if not form.fault]
    nodes = [form.nodes / row.nodes for row, form in right if form.nodes]
    ratios = [form.ratio for _, form in right if form.ratio]
    cells = [
        "" if name in WITHOUT_NODES else _mean(nodes),
        _mean(ratios),
        str(sum(ratio > 1.01 for ratio in ratios)) if ratios else "",
        *_mean_costs(right),
        *_fault_counts(name, pairs),
    ]
    return f"| {TITLES[name]} | {' | '.join(cells)} |"


def _mean_costs(pairs: Sequence[tuple[Row, Form]]) -> list[str]:
    """Seconds and peak memory as ratios to fusionc's."""
    both = [
        (form, row.forms["fusionc"])
        for row, form in pairs
        if form.seconds and row.forms["fusionc"].seconds
    ]
    return [
        _mean(form.seconds / ours.seconds for form, ours in both),
        _mean(form.peak / ours.peak for form, ours in both),
    ]


def _fault_counts(name: str, pairs: Sequence[tuple[Row, Form]]) -> list[str]:
    """The number of wrong results, and the number of missing results."""
    faulty = [form for _, form in pairs if form.fault]
    failed = sum(not form.nodes for form in faulty)
    # the answers of OpenVINO are not compared
    return ["" if name == "openvino" else str(len(faulty) - failed), str(failed)]


def _line(row: Row) -> str:
    other = row.best(name for name in TITLES if name not in NO_OTHERS)
    forms = [row.forms.get(name, Form()) for name in ("fusionc", "kernels", other, "openvino")]
    ours, kernels, best, openvino = (f"{form.ratio:.3f}" if form.ratio else "" for form in forms)
    nodes = forms[0].nodes or ""
    cells = [
        f"{row.milliseconds:.2f}",
        f"{row.nodes}",
        f"{nodes}",
        ours,
        kernels,
        best,
        TITLES.get(other, ""),
        openvino,
    ]
    return f"| {row.name} | {' | '.join(cells)} |"


def _mean(ratios: Iterable[float]) -> str:
    logarithms = [math.log(ratio) for ratio in ratios]
    return f"{math.exp(statistics.fmean(logarithms)):.3f}" if logarithms else ""


def drawing(rows: Sequence[Row], machine: str) -> str:
    """A drawing of run times as ratios to the original: a line for each model, a mark for each
    form. The fastest model is at the top.
    """
    run = sorted((row for row in rows if row.milliseconds), key=_of_best)
    width = LEFT + WIDTH + 60
    height = TOP + LINE * len(run) + 30
    title = "Run time as a ratio to the original in onnxruntime. Lower is faster."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{title}</title>",
        STYLE,
        '<rect width="100%" height="100%" class="paper"/>',
        f'<text x="10" y="16">{title}</text>',
        f'<text x="10" y="30" class="soft">{escape(machine.partition(";")[0])}</text>',
    ]
    for number, name in enumerate(DRAWN):
        at = LEFT + 112 * number
        parts += [_mark(name, at, 46), f'<text x="{at + 10}" y="50">{TITLES[name]}</text>']
    for fifth in range(int(END * 5) + 1):
        at = _across(fifth / 5)
        parts += [
            f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{TOP - 4}" y2="{height - 22}" '
            f'class="{"one" if fifth == 5 else "grid"}"/>',
            f'<text x="{at:.0f}" y="{height - 8}" text-anchor="middle">{fifth / 5:.1f}</text>',
        ]
    for number, row in enumerate(run):
        parts += _line_of(row, TOP + LINE * number + LINE // 2)
    return "\n".join([*parts, "</svg>", ""])


def _line_of(row: Row, at: int) -> Iterator[str]:
    """The name of a model and its marks. Ratios beyond the scale are an arrow with the number."""
    yield f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{escape(row.name)}</text>'
    for name in reversed(DRAWN):
        ratio = row.forms[name].ratio if name in row.forms else 0.0
        if not ratio:
            continue
        yield _mark(name, _across(min(ratio, END)), at, f"{TITLES[name]} {ratio:.3f}")
        if ratio > END:
            yield f'<text x="{LEFT + WIDTH + 8}" y="{at + 4}" class="soft">→ {ratio:.2f}</text>'


def _mark(name: str, x: float, y: float, title: str = "") -> str:
    full = f"<title>{escape(title)}</title>" if title else ""
    place = f'transform="translate({x:.1f} {y})"'
    return f'<path class="{name}" {place} d="{DRAWN[name]}">{full}</path>'


def _across(ratio: float) -> float:
    return LEFT + WIDTH * ratio / END


def _of_best(row: Row) -> float:
    name = row.best(("fusionc", "kernels"))
    return row.forms[name].ratio if name else math.inf


def rows_of(file: Path) -> list[Row]:
    """The rows of a CSV that `write` has written, as far as `drawing` needs them."""
    rows = dict[str, Row]()
    with file.open(newline="") as stream:
        for line in csv.DictReader(stream):
            row = rows.setdefault(line["model"], Row(line["model"], milliseconds=1.0))
            row.forms[line["optimizer"]] = Form(ratio=float(line["ratio"]))
    return list(rows.values())


if __name__ == "__main__":
    for results in sys.argv[1:]:
        measured_on = Path(f"{results}.md").read_text().partition("models; ")[2]
        Path(f"{results}.svg").write_text(drawing(rows_of(Path(f"{results}.csv")), measured_on))
