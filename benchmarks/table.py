"""Compare fusionc, other optimizers and OpenVINO in one table, on the models of a folder and its
subfolders.

    pip install '.[bench]'
    python benchmarks/table.py ../shared/models --results build/table
    python benchmarks/table.py FOLDER --only bert --one-thread       processor time, for a busy
                                                                     machine

For each model and each optimizer the table shows: the nodes of the result, whether it computes the
same as the model, the seconds and peak memory of the whole process that makes it, and its run time
in onnxruntime at its default level. All forms run in turn in several fresh processes. OpenVINO runs
the original model, and its outputs are not compared. fusionc has three entries: with its default
switches; with kernels, where kernels that are not in the cache are compiled; and with verification,
which is what the command does by default. For the first two there are also the seconds to create a
session. Wrong and missing results have no run time.

Inputs come from the folder's manifest, from NAME.npz next to the model, or from fusionc's
verification. The measurements are kept in RESULTS.jsonl. An interrupted run continues from there on
the same day and machine. If the same command runs again, it repeats measurements that something
disturbed: those whose A/A pair of the original differs by 2 %. RESULTS.md, RESULTS.csv and
RESULTS.svg are written again after each model. Exit code 1 if a result of fusionc is wrong or
missing, or if a model cannot be measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import journal
import numpy as np
import onnx
from interleaved import KERNELS, OPENVINO, Times, in_fresh_processes
from latency import inputs_of
from machine import machine
from optimizers import OTHERS
from peers import count
from rich.console import Console
from rich.progress import Progress
from sweep import hydrated
from table_files import Form, Row, write
from whole_process import cost_of

from fusionc import FusioncError
from fusionc.graph_kernel.library.location import library_for
from fusionc.runtime.runner import Runner
from fusionc.verify import verify
from fusionc.verify.inputs.search import InputSearch

OURS = {
    "fusionc": ["--no-verify"],
    "kernels": ["--no-verify", "--enable_graph_kernel"],
    "verified": [],
}
STEADY = 0.02  # the largest accepted difference of an A/A pair
_PACKAGES = (
    "fusionc",
    "onnxruntime",
    "openvino",
    "onnxsim",
    "onnxslim",
    "onnxscript",
    "onnxoptimizer",
)
_LOAD = """
import sys, time
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
if len(sys.argv) > 2:
    import fusionc
    fusionc.register_kernels(options, sys.argv[1])
begin = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(time.perf_counter() - begin, file=sys.stderr)
"""


def feeds_of(path: Path, full: Path) -> dict[str, Any]:
    """The inputs from a file next to the model, from the folder, or from the verification. Raises
    ValueError if there are none.
    """
    if path.with_suffix(".npz").is_file():
        return dict(np.load(path.with_suffix(".npz")))
    if (path.parent / "manifest.json").is_file():
        return inputs_of(path.parent.parent, path.stem)
    model = onnx.load(full, load_external_data=False)
    for sample in InputSearch(Runner(full), model, full.parent, {}).samples((0,), False):
        return sample.feeds
    raise ValueError("no inputs are known on which it runs")


def command(name: str, model: Path, made: Path) -> list[str]:
    if name in OURS:
        convert = [
            "-m",
            "fusionc",
            "convert",
            "--model",
            str(model),
            "--output",
            str(made),
            "--log",
            "null",
        ]
        return [sys.executable, *convert, "--export_compile_stat", "0", *OURS[name]]
    return [
        sys.executable,
        str(Path(__file__).with_name("optimizers.py")),
        name,
        str(model),
        str(made),
    ]


def made_by(name: str, model: Path, made: Path) -> Form:
    """The result of an optimizer for a model, and its cost."""
    cost = cost_of(command(name, model, made))
    form = Form(seconds=cost.seconds, processor=cost.processor, peak=cost.peak)
    if cost.code or not made.is_file():
        form.fault = f"exit code {cost.code}: {' '.join(cost.said.split())[-200:]}"
        return form
    form.nodes = count(onnx.load(made, load_external_data=False))
    # these two are one conversion, and the second one has verified its result
    if name not in ("fusionc", "verified"):
        kernels = library_for(made) if name == "kernels" and library_for(made).is_file() else None
        try:
            found = verify(model, _declared_as(model, made), seeds=(0,), kernels=kernels)
            form.fault = found.summary if found.status == "different" else ""
        except FusioncError as error:
            form.fault = str(error)
    return form


def _declared_as(model: Path, made: Path) -> Path:
    """The result for a model, with the declarations of inputs and outputs of the model: an inferred
    size is not a fault.
    """
    reference = onnx.load(model, load_external_data=False)
    found = onnx.load(made, load_external_data=False)
    for ours, theirs in (
        (reference.graph.input, found.graph.input),
        (reference.graph.output, found.graph.output),
    ):
        if {value.name for value in ours} == {value.name for value in theirs}:
            del theirs[:]
            theirs.extend(ours)
    path = made.with_name(f"declared_{made.name}")
    onnx.save(found, path)
    return path


def load_seconds(model: Path, has_kernels: bool) -> float:
    """The median over three fresh processes. 0 if the model cannot be loaded."""
    found = [
        cost_of([sys.executable, "-c", _LOAD, str(model), *(["kernels"] if has_kernels else [])])
        for _ in range(3)
    ]
    return (
        0.0
        if any(cost.code for cost in found)
        else statistics.median(float(cost.said.split()[-1]) for cost in found)
    )


def timed(
    forms: dict[str, Path], model: Path, inputs: Path, options: argparse.Namespace
) -> list[Times]:
    """The run times of all forms, and of the model in OpenVINO if OpenVINO runs it."""

    def measure(chosen: dict[str, Path]) -> list[Times]:
        return in_fresh_processes(
            chosen, inputs, options.seconds, options.processes, options.one_thread
        )

    if not find_spec(OPENVINO):
        return measure(forms)
    try:
        return measure(forms | {OPENVINO: model})
    except subprocess.CalledProcessError:  # OpenVINO failed; any other failure is raised again
        return measure(forms)


def measured(path: Path, name: str, options: argparse.Namespace, folder: Path) -> Row:
    model = hydrated(path, folder)
    inputs = folder / "inputs.npz"
    np.savez(inputs, **feeds_of(path, model))
    row = Row(name, count(onnx.load(model, load_external_data=False)), model.stat().st_size)
    results = optimized(row, model, folder)
    runs = timed({"original": model, "again": model} | results, model, inputs, options)
    row.milliseconds = statistics.median(run["original"] for run in runs) * 1e3
    row.again = statistics.median(run["again"] / run["original"] for run in runs)
    if find_spec(OPENVINO):
        row.forms[OPENVINO] = Form(fault="" if OPENVINO in runs[0] else "it does not run")
    for tool in set(row.forms) & set(runs[0]):
        row.forms[tool].ratio = statistics.median(run[tool] / run["original"] for run in runs)
    if "kernels" not in results and not row.forms["kernels"].fault:  # no kernels were made
        row.forms["kernels"].ratio = row.forms["fusionc"].ratio
    row.load = load_seconds(model, False)
    for tool in ("fusionc", "kernels"):
        if tool in results:
            row.forms[tool].load = load_seconds(results[tool], tool == "kernels")
    return row


def optimized(row: Row, model: Path, folder: Path) -> dict[str, Path]:
    """Fill in the results of all optimizers for a model. Return the results to measure, by
    optimizer.
    """
    results = {}
    for tool in (*OURS, *(optimizer.__name__ for optimizer in OTHERS)):
        result = folder / f"{tool}{KERNELS if tool == 'kernels' else ''}.onnx"
        row.forms[tool] = made_by(tool, model, result)
        if tool != "verified" and (tool != "kernels" or library_for(result).is_file()):
            results[tool] = result
    row.forms["fusionc"].fault = row.forms["fusionc"].fault or row.forms["verified"].fault
    return {tool: result for tool, result in results.items() if not row.forms[tool].fault}


def models(folder: Path, only: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.onnx")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if only in name:
            yield name, path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("table"),
        help="what the files are called, without suffix",
    )
    parser.add_argument("--only", default="", help="models whose path contains this word")
    parser.add_argument("--one-thread", action="store_true", help="processor time of one thread")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of measuring, for each form and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    found = list(models(options.folder, options.only))
    if not found:
        parser.error(f"no model in {options.folder} has {options.only!r} in its path")
    console = Console(stderr=True)
    file = Path(f"{options.results}.jsonl")
    here = machine(options.one_thread, options.processes, _PACKAGES)
    alike = {"where": here, "folder": str(options.folder.resolve()), "seconds": options.seconds}
    known = {
        row["name"]: Row.of(row)
        for row in journal.known(file, alike)
        if abs(row["again"] - 1) <= STEADY
    }
    rows = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        for name, path in progress.track(found):
            if name not in known:
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        known[name] = measured(path, name, options, Path(folder))
                    except (
                        Exception
                    ) as problem:  # a model that does not run is also a line of the table
                        known[name] = Row(name, fault=" ".join(str(problem).split())[:300])
                if not known[name].fault:
                    journal.keep(file, alike, known[name].data())
            rows.append(known[name])
            write(rows, options.results, here)
    print(Path(f"{options.results}.md").read_text())
    return int(any(row.fault or any(row.forms[tool].fault for tool in OURS) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
