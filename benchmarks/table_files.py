"""Write the measurements of table.py as Markdown, as CSV and as a drawing."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
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
DRAWN = {"fusionc": "#1f77b4", "kernels": "#d62728", "openvino": "#2ca02c", "onnxslim": "#8c8c8c"}

# pixels
LEFT = 230
TOP = 60
WIDTH = 560
LINE = 16
END = 1.6  # the ratio at the right edge; slower forms are drawn there
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
    """A drawing of run times as ratios to the original's: a line for each model, and a dot for each
    form. The fastest model is at the top.
    """
    run = sorted((row for row in rows if row.milliseconds), key=_of_best)
    height = TOP + LINE * len(run) + 30
    title = (
        f"Run time as a ratio to the original in onnxruntime. {escape(machine.partition(';')[0])}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}"',
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="16">{title}</text>',
    ]
    for number, (name, color) in enumerate(DRAWN.items()):
        at = LEFT + 130 * number
        parts.append(
            f'<circle cx="{at}" cy="36" r="4" fill="{color}"/>'
            f'<text x="{at + 8}" y="40">{TITLES[name]}</text>'
        )
    for fifth in range(int(END * 5) + 1):
        at = _across(fifth / 5)
        color = "#444" if fifth == 5 else "#ddd"
        parts.append(
            f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{TOP - 8}" y2="{height - 22}" '
            f'stroke="{color}"/>'
        )
        parts.append(
            f'<text x="{at:.0f}" y="{height - 8}" text-anchor="middle">{fifth / 5:.1f}</text>'
        )
    for number, row in enumerate(run):
        at = TOP + LINE * number + LINE // 2
        parts.append(
            f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{escape(row.name)}</text>'
        )
        for name, color in reversed(DRAWN.items()):
            if name in row.forms and row.forms[name].ratio:
                across = _across(row.forms[name].ratio)
                parts.append(f'<circle cx="{across:.1f}" cy="{at}" r="4" fill="{color}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _across(ratio: float) -> float:
    return LEFT + WIDTH * min(ratio, END) / END


def _of_best(row: Row) -> float:
    name = row.best(("fusionc", "kernels"))
    return row.forms[name].ratio if name else math.inf
