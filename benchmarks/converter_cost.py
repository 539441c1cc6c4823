"""Measure the cost of a conversion for a user: seconds and memory of the whole process, compared
with onnxsim and onnxslim.

    pip install '.[bench]'
    python benchmarks/converter_cost.py                        every model of ../shared/models
    python benchmarks/converter_cost.py FOLDER --only bert     models of another folder whose path
                                                               contains a word
    python benchmarks/converter_cost.py --rounds 5             more rounds; medians are shown
    python benchmarks/converter_cost.py --processor            processor time, for a busy machine

For each model, in turn: fusionc without and with verification, onnxsim and onnxslim, each as a
command line without options. Seconds are elapsed time. With --processor they are the processor time
of all processes and threads together, on which other work on the machine has little influence.
Memory is the peak of the largest process (its ru_maxrss) minus the peak for a model of one node, in
multiples of the size of the model. The first line has the cost of the model of one node itself.

Exit code 1 if fusionc fails; if the geometric mean of the seconds without verification is above
0.35 of onnxsim's or 0.4 of onnxslim's; if the mean with verification is above 0.8 of onnxslim's; or
if a model above 60 MB takes more than 2.0 times its size without verification, or 2.5 times with
it.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whole_process import cost_of

FUSIONC = "fusionc"
VERIFIED = "verified"
ONNXSIM = "onnxsim"
ONNXSLIM = "onnxslim"
COMMANDS = {
    FUSIONC: ["fusionc", "convert", "--no-verify", "--log", "null", "--model"],
    VERIFIED: ["fusionc", "convert", "--log", "null", "--model"],
    ONNXSIM: ["onnxsim"],
    ONNXSLIM: ["onnxslim"],
}
TIMES = ((FUSIONC, ONNXSIM, 0.35), (FUSIONC, ONNXSLIM, 0.4), (VERIFIED, ONNXSLIM, 0.8))
MEMORY = {FUSIONC: 2.0, VERIFIED: 2.5}
LARGE = 60e6  # bytes; the memory of models of this size or larger is judged
_ONE_NODE = """
import sys, onnx
from onnx import helper
x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", [x], [y])
opsets = [helper.make_opsetid("", 18)]
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), sys.argv[1])
"""
_HYDRATED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sweep import hydrated
hydrated(Path(sys.argv[2]), Path(sys.argv[3]))
"""


@dataclass(frozen=True)
class Paid:
    """The cost of one conversion: seconds and peak memory in bytes; infinite if it fails."""

    seconds: float = math.inf
    peak: float = math.inf


def paid(tool: str, source: Path, folder: Path, is_processor: bool) -> Paid:
    """Convert once."""
    target = folder / "made" / "out.onnx"
    target.parent.mkdir(exist_ok=True)
    output = ["--output"] if tool in MEMORY else []
    arguments = [
        sys.executable,
        "-m",
        *COMMANDS[tool],
        os.fspath(source),
        *output,
        os.fspath(target),
    ]
    cost = cost_of(arguments, target.parent)
    if cost.code or not target.exists():
        return Paid()
    target.unlink()
    return Paid(cost.processor if is_processor else cost.seconds, cost.peak)


def costs(source: Path, folder: Path, rounds: int, is_processor: bool) -> dict[str, Paid]:
    """The medians of several rounds. In each round all tools convert, one after the other. A tool
    that fails once counts as failed.
    """
    found = [
        {tool: paid(tool, source, folder, is_processor) for tool in COMMANDS} for _ in range(rounds)
    ]
    return {tool: median_of([row[tool] for row in found]) for tool in COMMANDS}


def median_of(costs: Sequence[Paid]) -> Paid:
    if Paid() in costs:
        return Paid()
    return Paid(
        statistics.median(one.seconds for one in costs),
        statistics.median(one.peak for one in costs),
    )


def run(code: str, *arguments: object) -> None:
    """Run Python code in a separate process, because it imports large modules."""
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)


def measured(
    sources: Sequence[Path], rounds: int, is_processor: bool
) -> list[tuple[float, dict[str, Paid]]]:
    """The size of each model and the costs of all tools. The model with one node comes first. Each
    line of the table is printed as soon as it is known.
    """
    table = []
    print(f"{'':28}{'MB':>6}", *(f"{tool:>15}" for tool in COMMANDS), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in [None, *sources]:
            model = folder / (source.name if source else "one node")
            if source is None:
                run(_ONE_NODE, model)
                costs(model, folder, 1, is_processor)  # compiles the modules
            elif (source.parent / "skeleton.py").exists():
                run(_HYDRATED, Path(__file__).parent, source, folder)
            else:
                model.symlink_to(source.resolve())
            size = model.stat().st_size
            found = costs(model, folder, rounds, is_processor)
            table.append((size, found))
            texts = (
                told(found[tool], table[0][1][tool], size if source else None) for tool in COMMANDS
            )
            print(
                f"{model.stem[:28]:28}{size / 1e6:6.0f}",
                *(f"{text:>15}" for text in texts),
                flush=True,
            )
            model.unlink()
    return table


def told(found: Paid, least: Paid, size: int | None) -> str:
    if found.seconds == math.inf:
        return "fails"
    peak = (
        f"{found.peak / 1e6:4.0f} MB"
        if size is None
        else f"×{(found.peak - least.peak) / size:5.1f}"
    )
    return f"{found.seconds:5.2f} s {peak}"


def ratio(table: Iterable[Mapping[str, Paid]], one: str, other: str) -> tuple[float, int]:
    """The geometric mean over the models that both tools convert, and the number of these models.
    Infinite if there are none.
    """
    pairs = [(row[one].seconds, row[other].seconds) for row in table]
    logarithms = [math.log(a / b) for a, b in pairs if max(a, b) < math.inf]
    return math.exp(statistics.mean(logarithms)) if logarithms else math.inf, len(logarithms)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(__file__).parents[2] / "shared" / "models"
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    sources = [path for path in sorted(options.folder.rglob("*.onnx")) if options.only in str(path)]
    if not sources:
        sys.exit(f"no models in {options.folder}")
    (_, least), *table = measured(sources, options.rounds, options.processor)
    failed = [tool for _, row in table for tool in MEMORY if row[tool] == Paid()]
    print(f"fusionc fails in {len(failed)} of {len(MEMORY) * len(table)} conversions")
    are_few_seconds = is_fast([row for _, row in table])
    are_few_bytes = is_small(table, least)
    sys.exit(bool(failed) or not (are_few_seconds and are_few_bytes))


def is_fast(table: Sequence[Mapping[str, Paid]]) -> bool:
    """Print the means of the seconds. Return whether all are within their limits."""
    is_good = True
    for one, other, limit in TIMES:
        mean, count = ratio(table, one, other)
        is_good &= mean <= limit
        print(
            f"seconds, {one} ÷ {other}: geometric mean {mean:.2f} of {count} models (at most "
            f"{limit})"
        )
    return is_good


def is_small(table: Sequence[tuple[float, Mapping[str, Paid]]], least: Mapping[str, Paid]) -> bool:
    """Print the largest memory for a large model. Return whether all are within their limits."""
    is_good = True
    for tool, most in MEMORY.items():
        large = [(size, row[tool]) for size, row in table if size > LARGE and row[tool] != Paid()]
        peaks = [(cost.peak - least[tool].peak) / size for size, cost in large]
        is_good &= max(peaks, default=0) <= most
        if peaks:
            print(
                f"memory, {tool}: at most ×{max(peaks):.1f} in {len(peaks)} models above 60 MB "
                f"(at most ×{most})"
            )
    return is_good


if __name__ == "__main__":
    main()
