"""Compare the number of nodes and the conversion time with other optimizers, on the models of a
folder and its subfolders.

    pip install '.[bench]'
    python benchmarks/peers.py ../shared/models                       portable passes, at each
                                                                      model's own opset
    python benchmarks/peers.py ../shared/models --target_opset 23     the same, raised to a newer
                                                                      opset first
    python benchmarks/peers.py ../shared/peer_models --rounds 0       nodes only
    python benchmarks/peers.py FOLDER --only bert                     models whose path contains a
                                                                      word

For each model the table shows the nodes before, after fusionc, and after the best other optimizer,
and the seconds of fusionc and onnxsim (the median of rounds in turn, without verification). Nodes
in subgraphs and functions count; Constants do not, because they are data. Each other optimizer runs
in a separate process, because some of them crash.

A result with fewer nodes than fusionc's is the best only if it is right. It must have the inputs
and outputs of the model, only operators of the model's domains, and the same random operators.
`fusionc verify` must find it equal, with several sizes of dynamic dimensions, zeros, NaN and
infinities. It must also be equal if one input has special numbers, in onnxruntime and, for small
models, in onnx's own evaluator, which rounds to the types of the model. And it must not be slower
in onnxruntime. Reasons against results, and faults of fusionc's own result, are listed below the
model. If onnxruntime does not run a model, it is listed and does not count.

Exit code 1 if fusionc leaves more nodes than the best other optimizer plus two, if its result is
wrong, or if it is slower than onnxsim in the geometric mean.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import operator
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import onnx
from onnx import ModelProto
from optimizers import PORTABLE, Optimizer, onnxsim
from peer_faults import fault, is_run, slowness
from rich.console import Console
from sweep import hydrated

from fusionc import convert
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.protos import nodes_of
from fusionc.requested.target_opset import raise_opset
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

MARGIN = 2  # nodes
SLOWER = 1.1  # a result with fewer nodes is not better if it takes this many times as long
PATIENCE = 300  # seconds; the limit of another optimizer


def fusionc(model: ModelProto, target_opset: int | None = None) -> ModelProto:
    if target_opset is not None:
        model = raise_opset(model, target_opset)
    graph = typed_model(model, "")
    run(graph, [p for p in PASSES if p.kind == "GraphFusion" and p.default != "off"], RewriteLog())
    return write_back(graph)


def delivered(model: Path, result: Path) -> int:
    """Convert with the portable passes, as a user does. Return the result's number of nodes."""
    with tempfile.TemporaryDirectory() as folder:
        switches = Path(folder) / "switches.json"
        switches.write_text('{"Switch": {"UBFusion": {"ALL": "off"}}}')
        made = Path(folder) / "made.onnx"
        convert(model, output=made, fusion_switch_file=switches, log="null")
        proto = onnx.load(made)
    onnx.save(proto, result)
    return count(proto)


def count(model: ModelProto) -> int:
    return sum(node.op_type != "Constant" for node in nodes_of(model))


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def timed(optimizer: Optimizer, model: ModelProto) -> tuple[ModelProto, float]:
    """The result and the seconds."""
    copy = _copy(model)
    start = time.perf_counter()
    result = optimizer(copy)
    return result, time.perf_counter() - start


def seconds_of_other(optimizer: Optimizer, model: ModelProto, result: Path) -> float:
    """The seconds of another optimizer in a separate process. NaN, and no file `result`, if it
    fails.
    """
    seconds = multiprocessing.Value("d", math.nan)
    child = multiprocessing.get_context("fork").Process(
        target=_other, args=(optimizer, model, result, seconds)
    )
    child.start()
    child.join(PATIENCE)
    child.kill()
    child.join()
    return float(seconds.value)


def _other(
    optimizer: Optimizer, model: ModelProto, result: Path, seconds: Synchronized[float]
) -> None:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    made, taken = timed(optimizer, model)
    onnx.save(made, result)
    seconds.value = taken


@dataclass
class Row:
    """The outcome for one model: the nodes before, the nodes of fusionc and of the best other
    optimizer, and its name.
    """

    before: int
    ours: int
    best: int
    of: str
    seconds: tuple[float, float] | None
    notes: list[str]
    is_right: bool
    is_judged: bool


def row(full: Path, folder: Path, ours_at: Optimizer, rounds: int) -> Row:
    model = onnx.load(full)
    before = count(model)
    notes = list[str]()
    ours, problem = made_by_fusionc(full, model, folder / "fusionc.onnx", ours_at)
    if problem:
        notes.append(f"fusionc is wrong: {problem}")
    found = {"": (before, full)}
    for other in PORTABLE:
        result = folder / f"{other.__name__}.onnx"
        if not math.isnan(seconds_of_other(other, model, result)):
            found[other.__name__] = count(onnx.load(result, load_external_data=False)), result
    ranking = sorted((nodes, name, result) for name, (nodes, result) in found.items())
    is_judged = ranking[0][0] >= ours or is_run(full)
    if not is_judged:
        notes.append("not counted: onnxruntime does not run the model")
    best = ours
    of = "fusionc"
    for nodes, name, result in ranking:
        is_fewer = nodes < ours
        why = reason_against(name, full, model, result, folder / "fusionc.onnx") if is_fewer else ""
        if not why:
            best = nodes
            of = name
            break
        notes.append(f"{name or 'the model itself'}, {nodes}: {why}")
    seconds = median_seconds(model, ours_at, folder / "again.onnx", rounds)
    return Row(before, ours, best, of, seconds, notes, not problem, is_judged)


def made_by_fusionc(
    full: Path, model: ModelProto, result: Path, ours_at: Optimizer
) -> tuple[int, str]:
    """Write fusionc's result for a model. Return its number of nodes, and its fault if there is
    one.
    """
    proto = ours_at(_copy(model))
    onnx.save(proto, result)
    if not fault(full, model, result):
        return count(proto), ""
    # a conversion leaves out rewrites that onnxruntime cannot run
    return delivered(full, result), fault(full, model, result)


def reason_against(name: str, full: Path, model: ModelProto, result: Path, ours: Path) -> str:
    """Why a result with fewer nodes than fusionc's is not better. "" if it is. The unchanged model
    has an empty name.
    """
    if name and (problem := fault(full, model, result)):
        return problem
    times = slowness(model, result, ours)
    return f"takes {times:.1f} times as long as what fusionc makes" if times > SLOWER else ""


def median_seconds(
    model: ModelProto, ours_at: Optimizer, result: Path, rounds: int
) -> tuple[float, float] | None:
    """The median seconds of fusionc and onnxsim, run in turn. None without rounds."""
    taken = [
        (timed(ours_at, model)[1], seconds_of_other(onnxsim, model, result)) for _ in range(rounds)
    ]
    if not taken:
        return None
    ours, others = zip(*taken, strict=True)
    return statistics.median(ours), statistics.median(others)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose path contains this word")
    parser.add_argument("--target_opset", type=int, help="of what fusionc makes")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of the time measurement; 0 where only nodes matter"
    )
    options = parser.parse_args()
    console = Console(width=150, highlight=False)
    rows = list[Row]()
    console.print(
        f"{'model':60}{'nodes':>7}{'fusionc':>9}{'best':>7}  "
        f"{'of':18}{'fusionc s':>10}{'onnxsim s':>10}"
    )
    ours_at = partial(fusionc, target_opset=options.target_opset)
    for path in sorted(p for p in options.folder.rglob("*.onnx") if options.only in os.fspath(p)):
        with tempfile.TemporaryDirectory() as name:
            found = row(hydrated(path, Path(name)), Path(name), ours_at, options.rounds)
        rows.append(found)
        seconds = "".join(f"{s:10.3f}" for s in found.seconds or ())
        is_worse = found.is_judged and found.ours > found.best
        console.print(
            f"{os.fspath(path.relative_to(options.folder)):60}{found.before:7}{found.ours:9}{found.best:7}"
            f"  {found.of:18}{seconds}{'  more nodes' if is_worse else ''}",
            markup=False,
            style="red" if is_worse else None,
        )
        for note in found.notes:
            console.print(f"    {note}", markup=False, soft_wrap=True)
    return verdict(rows, console)


def verdict(rows: Sequence[Row], console: Console) -> int:
    """Print the sums, and return the exit code."""
    wrong = sum(not r.is_right for r in rows)
    judged = [r for r in rows if r.is_judged]
    before, ours, best = (
        sum(getattr(r, name) for r in judged) for name in ("before", "ours", "best")
    )
    fewer, more = (
        sum(is_so(r.ours, r.best) for r in judged) for is_so in (operator.lt, operator.gt)
    )
    console.print(
        f"{len(judged)} models, {before} nodes: fusionc {ours}, the best of the others for each "
        f"model {best}; fusionc "
        f"has fewer on {fewer}, more on {more}, is wrong on {wrong}"
    )
    ratio = time_ratio(rows)
    if ratio:
        console.print(f"time to onnxsim's, geometric mean: {ratio:.3f}")
    most = max((r.ours - r.best for r in judged), default=0)
    return int(wrong > 0 or most > MARGIN or ratio > 1)


def time_ratio(rows: Sequence[Row]) -> float:
    """The geometric mean of the ratios of fusionc's times to onnxsim's. 0 if there are none."""
    pairs = [r.seconds for r in rows if r.seconds and not math.isnan(r.seconds[1])]
    logarithms = [math.log(ours / other) for ours, other in pairs]
    return math.exp(statistics.fmean(logarithms)) if logarithms else 0.0


if __name__ == "__main__":
    sys.exit(main())
