"""Measure run times after convert on the models of make_unseen.py: single models of the half that
may be examined, and means of the other half.

    pip install .
    python benchmarks/unseen.py unseen                       every model in the folder
    python benchmarks/unseen.py unseen --only yolo --processes 5
    python benchmarks/unseen.py unseen --half held_out       only the means of the other half
    python benchmarks/unseen.py unseen --one-thread          processor time, for a busy machine
    python benchmarks/unseen.py unseen --results rows        takes an hour, and can be continued

Each model is converted with the default switches and with kernels, and verified. Then it runs on
its own inputs at onnxruntime's default level. All forms run in turn in several fresh processes. A
ratio compares the usual time of a form (see interleaved.py) with the original's; the table shows
the median over the processes. A/A is the original compared with itself. If no kernels are made, the
ratio of the kernels is that of the default switches. "same" means that onnxruntime runs the same
operators for the default form as for the original: the ratio is noise, gets no remark, and does not
count in the number of models that are fast enough. Forms that seem slower are measured again after
all models, in three times as many processes, and only this second measurement counts. Among a
hundred equally fast models some seem slower by chance, and one model may be slower for a minute in
all processes because of its place in memory. "fails" is a model that fusionc does not convert, or
converts to a wrong result; "not run" is a model that onnxruntime does not run.

Models of the held-out half are not named unless they fail. Only their means, the number of slower
models, and the slowest ratio are reported. The measurements are kept in RESULTS.jsonl, and the
means are written to RESULTS.md. Exit code 1 if a model fails, or is slower than 1.01 beyond its A/A
in either form.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import journal
import onnxruntime
from interleaved import in_fresh_processes
from machine import machine
from ratios import SLOWER, converted, mean_of, operators_run
from rich.console import Console

import fusionc

HALVES = ("tune", "held_out")
KINDS = ("cnn", "transformer", "recurrent", "float16")
_MORE = 3  # factor for the number of processes if a form seemed slower
HEAD = f"{'model':46}{'kind':12}{'ms':>9}{'A/A':>8}{'default':>9}{'kernels':>9}"


@dataclass
class Row:
    """The measurements of a model: run times by form as ratios to the original's, and the reason if
    there are no ratios.
    """

    half: str
    kind: str
    name: str
    processes: int
    milliseconds: float = 0.0
    ratio: dict[str, float] = field(default_factory=dict)
    not_run: str = ""
    # whether onnxruntime runs the same operators for the original and the default form
    is_same: bool = False
    unverified: str = ""  # the reason if fusionc could not verify the result
    failures: dict[str, str] = field(default_factory=dict)

    def unlike(self) -> dict[str, float]:
        """The ratios of forms for which onnxruntime runs other operators."""
        same = self.ratio.get("default") if self.is_same else None
        return {
            form: ratio
            for form, ratio in self.ratio.items()
            if form in ("default", "kernels") and ratio != same
        }

    def seems_slower(self) -> bool:
        return any(ratio > SLOWER for ratio in self.unlike().values())

    def slower(self) -> list[str]:
        noise = SLOWER + abs(self.ratio.get("again", 1.0) - 1)
        return [form for form, ratio in self.unlike().items() if ratio > noise]

    def __str__(self) -> str:
        ratios = [
            f"{self.ratio[form]:9.3f}" if form in self.ratio else f"{'':9}"
            for form in ("default", "kernels")
        ]
        remarks = ["same"] if self.is_same else []
        remarks += [f"slower: {', '.join(self.slower())}"] if self.slower() else []
        remarks += [f"fails, {form}: {problem}" for form, problem in self.failures.items()]
        remarks += [self.unverified] if self.unverified and not self.not_run else []
        remarks += [f"not run: {self.not_run}"] if self.not_run else []
        measured = f"{self.milliseconds:9.2f}{self.ratio.get('again', 0.0):8.3f}{''.join(ratios)}"
        return f"{self.name:46}{self.kind:12}{measured}  {'; '.join(remarks)}"


def one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300]


def not_run(path: Path) -> str:
    """Why onnxruntime does not run a model. Empty if it does."""
    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime raises errors of many types
        return one_line(problem)
    return ""


def measured(path: Path, options: argparse.Namespace, processes: int) -> Row:
    row = Row(
        path.parent.parent.name, path.parent.name, path.stem, processes, not_run=not_run(path)
    )
    inputs = path.with_suffix(".npz")
    forms = {"original": path, "again": path}
    with tempfile.TemporaryDirectory() as folder:
        for form, with_kernels in (("default", False), ("kernels", True)):
            try:
                made, verification = converted(path, Path(folder), inputs, with_kernels)
                if made:
                    forms[form] = made
                if verification.startswith("not verified"):
                    row.unverified = verification
            except fusionc.FusioncError as problem:
                row.failures[form] = one_line(problem)
        if not row.not_run:
            row.is_same = "default" in forms and operators_run(path) == operators_run(
                forms["default"]
            )
            take_times(row, forms, inputs, options)
    return row


def take_times(row: Row, forms: dict[str, Path], inputs: Path, options: argparse.Namespace) -> None:
    runs = in_fresh_processes(forms, inputs, options.seconds, row.processes, options.one_thread)
    row.milliseconds = statistics.median(run["original"] for run in runs) * 1e3
    row.ratio = {
        form: statistics.median(run[form] / run["original"] for run in runs) for form in forms
    }
    if "default" in forms and "kernels" not in row.failures:
        row.ratio.setdefault("kernels", row.ratio["default"])


def summary(title: str, rows: list[Row]) -> str:
    def of(form: str) -> str:
        ratios = [row.ratio[form] for row in rows if form in row.ratio]
        slower = sum(form in row.slower() for row in rows)
        most = max((row.unlike().get(form, 0.0) for row in rows), default=0.0)
        return f"{mean_of(ratios):>7} | {slower:>6} | {most:>7.3f}"

    again = mean_of(row.ratio["again"] for row in rows if "again" in row.ratio)
    return (
        f"| {title:22} | {sum(bool(row.ratio) for row in rows):>6} | {again:>5} | "
        f"{of('default')} | {of('kernels')} |"
    )


def means(rows: Iterable[Row]) -> Iterator[str]:
    """A table for each kind of models in each half that was measured."""
    of_each = "slower | at most |"
    yield f"| geometric means        | models |   A/A | default | {of_each} kernels | {of_each}"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for half in HALVES:
        mine = [row for row in rows if row.half == half]
        for kind in KINDS:
            if of_kind := [row for row in mine if row.kind == kind]:
                yield summary(f"{half}, {kind}", of_kind)
        if mine:
            yield summary(f"{half}, all", mine)


class Measurements:
    """Measures models, shows their rows and keeps them in a journal."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.console = Console(width=200)
        self.where = machine(options.one_thread, options.processes)
        self.kept = options.results and Path(f"{options.results}.jsonl")
        self.alike = {
            "where": self.where,
            "folder": str(options.folder.resolve()),
            "seconds": options.seconds,
            "row": [f.name for f in fields(Row)],
        }
        rows = journal.known(self.kept, self.alike)
        self.known = {(row["half"], row["name"]): Row(**row) for row in rows}

    def show(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show_row(self, row: Row) -> None:
        if row.half == "tune" or row.failures:
            self.show(str(row))

    def measure(self, path: Path, processes: int) -> Row:
        row = measured(path, self.options, processes)
        if not row.failures:
            journal.keep(self.kept, self.alike, asdict(row))
        return row

    def rows(self, paths: Sequence[Path]) -> list[Row]:
        """A row for each model. Forms that seem slower are measured again in more processes."""
        rows = []
        processes = self.options.processes
        for path in paths:
            known = self.known.get((path.parent.parent.name, path.stem))
            row = known or self.measure(path, processes)
            rows.append(row)
            self.show_row(row)
        for place, (path, row) in enumerate(zip(paths, rows, strict=True)):
            if row.seems_slower() and row.processes == processes:
                rows[place] = self.measure(path, _MORE * processes)
                self.show_row(rows[place])
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this word")
    parser.add_argument("--half", choices=HALVES, help="only the models of this half")
    parser.add_argument("--one-thread", action="store_true", help="processor time of one thread")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of measuring, for each form and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--results", type=Path, help="RESULTS: models that it has are not measured again"
    )
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    halves = [half for half in HALVES if options.half in (None, half)]
    paths = [path for half in halves for path in sorted((options.folder / half).rglob("*.onnx"))]
    paths = [path for path in paths if options.only in path.stem]
    if not paths:
        places = " or ".join(str(options.folder / half) for half in halves)
        parser.error(f"no model in {places} has {options.only!r} in its name")
    measurements = Measurements(options)
    measurements.show(HEAD)
    return verdict(measurements.rows(paths), measurements)


def verdict(rows: list[Row], measurements: Measurements) -> int:
    """Print and write the means, and return the exit code."""
    options = measurements.options
    table = list(means(rows))
    measurements.show("\n" + "\n".join(table))
    if options.results:
        more = f"{_MORE * options.processes} processes for what seemed slower"
        head = f"{measurements.where}; {more}; models of benchmarks/make_unseen.py."
        Path(f"{options.results}.md").write_text("\n".join([head, "", *table, ""]))
    failed = sum(bool(row.failures) for row in rows)
    slower = sum(bool(row.slower()) for row in rows)
    left_out = sum(bool(row.not_run) for row in rows)
    measurements.show(
        f"{len(rows)} models, {failed} wrong or not converted, {slower} slower, {left_out} not "
        "run by onnxruntime"
    )
    return 1 if failed or slower else 0


if __name__ == "__main__":
    sys.exit(main())
