"""What `fusionc tune` finds on many models, each tuned twice in two processes: what is delivered beside the defaults.

    pip install .
    python benchmarks/tuned.py                                     every model of ../shared/models, 90 s each time
    python benchmarks/tuned.py --only=-ts- --budget 60s --once     some of them, once
    python benchmarks/tuned.py --results tuned.jsonl               to be interrupted and gone on with

Ratios are those of the last run of a tuning, which is one of its own: of what is delivered to the original and to the
default switches. What is delivered as the defaults has the ratio 1 to these, what is delivered as the original the
inverse of theirs. The second time the same changes have to be found significant: shown are those that only one of both
calls so. Exit code 1 where a result is slower than 1.01 of its original, or all of them together are not 3 % faster
than the defaults.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sweep import hydrated

SLOWER, GAIN = 1.01, 0.97
SIGNIFICANT = ("pays", "costs")


def tuning(model: Path, folder: Path, budget: str) -> dict[str, Any]:
    """What one tuning says."""
    command = [sys.executable, "-m", "fusionc", "tune", "--model", model, "--output", folder / "tuned.onnx"]
    command += ["--budget", budget, "--json", "--log", "null"]
    ran = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{model.name}: {ran.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def row_of(found: dict[str, Any]) -> dict[str, Any]:
    last, delivered = found["last_run"], found["delivered"]
    of_default = last["default / original"]["ratio"]
    to_original = {"tuned": last.get("tuned / original", {}).get("ratio"), "default": of_default, "original": 1.0}
    to_default = {"tuned": last.get("tuned / default", {}).get("ratio"), "default": 1.0, "original": 1 / of_default}
    changes = {one["change"]: one["state"] for one in found["changes"] if one["state"] in SIGNIFICANT}
    return {
        "delivered": delivered,
        "original": to_original[delivered],
        "default": to_default[delivered],
        "changes": changes,
        "seconds": found["seconds"],
    }


def measured(model: Path, options: argparse.Namespace) -> dict[str, Any]:
    times = []
    for _ in range(1 if options.once else 2):
        with tempfile.TemporaryDirectory() as name:
            times.append(row_of(tuning(hydrated(model, Path(name)), Path(name), options.budget)))
    return {"model": model.stem, "times": times}


def described(row: dict[str, Any]) -> str:
    first, last = row["times"][0], row["times"][-1]
    text = f"{row['model']:24}{first['seconds']:7.0f} s  {first['delivered']:9}"
    text += "".join(f"{time['original']:8.3f}{time['default']:8.3f}" for time in row["times"])
    found = ", ".join(f"{change} {state}" for change, state in first["changes"].items())
    unlike = [change for change, _ in first["changes"].items() ^ last["changes"].items()]
    only = f"; in one of two: {', '.join(sorted(set(unlike)))}" if unlike else ""
    return f"{text}  {found}{only}"


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[2] / "shared" / "models")
    parser.add_argument("--only", default="", help="models whose name contains this word")
    parser.add_argument("--budget", default="90s", help="of each tuning")
    parser.add_argument("--once", action="store_true", help="tune each model once")
    parser.add_argument("--results", type=Path, help="a file of rows; models that it has are not tuned again")
    options = parser.parse_args()
    lines = options.results.read_text().splitlines() if options.results and options.results.exists() else []
    known, rows = {row["model"]: row for row in map(json.loads, lines)}, []
    print(f"{'model':24}{'':9}  {'delivered':9}{'of original':>8} and default, each time", flush=True)
    for model in sorted(path for path in options.folder.glob("*.onnx") if options.only in path.stem):
        row = known.get(model.stem) or measured(model, options)
        rows.append(row)
        if options.results and model.stem not in known:
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(described(row), flush=True)
    times = [time for row in rows for time in row["times"]]
    gain, slowest = geometric_mean([time["default"] for time in times]), max(time["original"] for time in times)
    print(
        f"{len(rows)} models: delivered ÷ original {geometric_mean([time['original'] for time in times]):.3f}, at most "
        f"{slowest:.3f}; delivered ÷ default {gain:.3f}"
    )
    return int(slowest > SLOWER or gain > GAIN)


if __name__ == "__main__":
    sys.exit(main())
