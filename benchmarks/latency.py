"""Measure run times before and after a conversion, in onnxruntime at its default level, on the
models of a shared folder.

    python benchmarks/latency.py ../shared                   the default switches
    python benchmarks/latency.py ../shared --portable        GraphFusion only
    python benchmarks/latency.py ../shared --only bert --seconds 4 --processes 5

In each of several fresh processes there are three sessions of each model: the original, the
original again (this A/A pair shows the noise), and the result. They are created in random order and
run in turn. A ratio is a ratio of medians. The table shows the median ratio over the processes, and
the lowest and highest one. "same" means that onnxruntime runs the same operators, with the same
attributes and weights of the same shapes, after optimizing both models at its default level: the
ratio is then only noise. Exit code 1 if another model is slower than 1.02 by more than the
difference of its A/A pair.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import in_fresh_processes
from ratios import mean_of, operators_run
from rich.console import Console
from sweep import hydrated

import fusionc

LIMIT = 1.02


def inputs_of(shared: Path, name: str) -> dict[str, Any]:
    """The inputs of this model from the shared folder."""
    sys.path.insert(0, f"{shared}/models")
    from inputs import make_feeds

    entry = next(
        r for r in json.loads((shared / "models/manifest.json").read_text()) if r["name"] == name
    )
    feeds: dict[str, Any] = make_feeds(entry)
    return feeds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this word")
    parser.add_argument("--portable", action="store_true", help="GraphFusion only")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of measuring, for each model and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    console = Console(width=120)
    ratios = []
    slower = 0
    console.print(f"{'model':28}{'ms':>9}{'after/before':>14}{'lowest':>9}{'highest':>9}{'A/A':>8}")
    paths = (options.shared / "models").glob("*.onnx")
    for path in sorted(path for path in paths if options.only in path.name):
        with tempfile.TemporaryDirectory() as folder:
            row = measured(path, Path(folder), options)
        ratios.append(row.median)
        slower += row.is_slower
        console.print(f"{path.stem:28}{row}", highlight=False)
    console.print(f"geometric mean {mean_of(ratios)}, slower: {slower}")
    return 1 if slower else 0


@dataclass
class Row:
    """The run times of a model."""

    milliseconds: float  # of the original
    ratios: list[float]  # result / original, in each process
    noise: float  # the ratio of the A/A pair
    is_same: bool  # whether onnxruntime runs the same operators

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def is_slower(self) -> bool:
        return self.median > LIMIT * max(1.0, self.noise) and not self.is_same

    def __str__(self) -> str:
        remark = "  same" if self.is_same else "  slower" if self.is_slower else ""
        limits = f"{min(self.ratios):9.3f}{max(self.ratios):9.3f}"
        return f"{self.milliseconds:9.2f}{self.median:14.3f}{limits}{self.noise:8.3f}{remark}"


def measured(path: Path, folder: Path, options: argparse.Namespace) -> Row:
    before = hydrated(path, folder)
    after = folder / f"{path.stem}-fused.onnx"
    switches = folder / "portable.json"
    switches.write_text('{"Switch": {"UBFusion": {"ALL": "off"}}}')
    fusionc.convert(
        before,
        output=after,
        fusion_switch_file=switches if options.portable else None,
        verify=False,
        export_compile_stat=0,
    )
    forms = {"original": before, "again": before, "result": after}
    inputs = folder / "inputs.npz"
    np.savez(inputs, **inputs_of(options.shared, path.stem))
    runs = in_fresh_processes(forms, inputs, options.seconds / len(forms), options.processes)
    return Row(
        runs[0]["original"] * 1e3,
        [run["result"] / run["original"] for run in runs],
        statistics.median(run["again"] / run["original"] for run in runs),
        operators_run(before) == operators_run(after),
    )


if __name__ == "__main__":
    sys.exit(main())
