"""How long models run before and after, in onnxruntime at its default level, on the models of a
shared folder.

    python benchmarks/latency.py ../shared                   the default switches
    python benchmarks/latency.py ../shared --portable        GraphFusion only
    python benchmarks/latency.py ../shared --only bert --seconds 4 --processes 5

For each model and in each of several fresh processes: the original, the original once more (the A/A
pair shows the noise) and the result, in sessions made in shuffled order and run in turn. A ratio is
one of medians; what is shown is the median over the processes, and their lowest and highest. "same"
stands where onnxruntime, when it has optimized both at its default level, runs the same operators
with the same attributes on weights of the same shapes: then a ratio is noise. Exit code 1 if
another model is slower than 1.02 beyond what its A/A pair differs by.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
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
    """What the shared folder feeds this model."""
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
    with tempfile.TemporaryDirectory() as folder:
        switches = Path(folder, "portable.json")
        switches.write_text('{"Switch": {"UBFusion": {"ALL": "off"}}}')
        for path in sorted(
            p for p in (options.shared / "models").glob("*.onnx") if options.only in p.name
        ):
            before = hydrated(path, Path(folder))
            after = Path(folder, f"{path.stem}-fused.onnx")
            fusionc.convert(
                before, output=after, fusion_switch_file=switches if options.portable else None, verify=False,
                export_compile_stat=0,
            )  # fmt: skip
            forms = {"original": before, "again": before, "result": after}
            inputs = Path(folder, "inputs.npz")
            np.savez(inputs, **inputs_of(options.shared, path.stem))
            runs = in_fresh_processes(
                forms, inputs, options.seconds / len(forms), options.processes
            )
            ratio = [run["result"] / run["original"] for run in runs]
            noise = statistics.median(run["again"] / run["original"] for run in runs)
            median = statistics.median(ratio)
            ratios.append(median)
            is_same = operators_run(before) == operators_run(after)
            is_slower = median > LIMIT * max(1.0, noise) and not is_same
            slower += is_slower
            remark = "  same" if is_same else "  slower" if is_slower else ""
            figures = f"{median:14.3f}{min(ratio):9.3f}{max(ratio):9.3f}{noise:8.3f}{remark}"
            console.print(
                f"{path.stem:28}{runs[0]['original'] * 1e3:9.2f}{figures}", highlight=False
            )
            for made in (after, *([before] if before.parent == Path(folder) else [])):
                made.unlink()
    console.print(f"geometric mean {mean_of(ratios)}, slower: {slower}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
