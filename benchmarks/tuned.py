"""Measure the results of `fusionc tune` for many models afterwards, compared with the defaults and
the original.

    pip install .
    python benchmarks/tuned.py                                     every model of ../shared/models,
                                                                   twice for 120 s
    python benchmarks/tuned.py --only=-ts- --budget 60s --once     some of them, once
    python benchmarks/tuned.py --results tuned.jsonl               can be interrupted and continued

A tuning reports ratios of the same rounds by which it chose the result, so they are a little too
good. The ratios here are measured after the tuning by `fusionc bench`, which runs the original, the
tuned result and a conversion with the default switches in turn in fresh processes. If the tuning
delivers the original or the defaults, that ratio is 1. A second tuning should find the same changes
significant: the table shows changes that only one of both found. Exit code 1 if a result is
certainly slower than 1.01 of its original according to the bounds of the bench, if a tuning fails,
or if all results together are not 3 % faster than the defaults.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import journal
from machine import machine
from ratios import SLOWER, mean_of
from sweep import hydrated

GAIN = 0.97  # the largest accepted ratio of all results to the defaults
SIGNIFICANT = ("pays", "costs")
PROCESSES = 3
Row = dict[str, Any]


def fusionc(folder: Path, *arguments: object) -> str:
    """The output of a command. Raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "fusionc", *map(str, arguments)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command[2:])}: {ran.stderr.strip()[-500:]}")
    return ran.stdout


def tuned(model: Path, folder: Path, budget: str) -> Row:
    """The result of one tuning, and its measurements."""
    said = fusionc(
        folder,
        *f"tune --output tuned.onnx --budget {budget} --json --log null --model".split(),
        model,
    )
    found = json.loads(said)
    delivered = found["delivered"]
    fusionc(
        folder,
        *["convert", "--output", "default.onnx", "--no-verify", "--log", "null", "--model"],
        model,
    )
    forms = [model, "default.onnx", *(["tuned.onnx"] if delivered == "tuned" else [])]
    rows = json.loads(fusionc(folder, "bench", *forms, "--processes", PROCESSES, "--json"))[
        "models"
    ]
    ratios = [{"ratio": 1.0, "low": 1.0}, *(row["ratio"] for row in rows[1:])]
    place = {"original": 0, "default": 1, "tuned": -1}[delivered]
    return {
        "delivered": delivered,
        "original": ratios[place]["ratio"],
        "surely": ratios[place]["low"],
        "default": 1.0 if delivered == "default" else ratios[place]["ratio"] / ratios[1]["ratio"],
        "changes": {
            one["change"]: "pays" if one["delivered"] else one["state"]
            for one in found["changes"]
            if one["delivered"] or one["state"] in SIGNIFICANT
        },
        "seconds": found["seconds"],
    }


def measured(model: Path, budget: str, times: int) -> Row:
    rows = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            rows.append(tuned(hydrated(model, Path(name)), Path(name), budget))
    return {"model": model.stem, "times": rows}


def described(row: Row) -> str:
    first = row["times"][0]
    last = row["times"][-1]
    text = f"{row['model']:24}{first['seconds']:7.0f} s  {first['delivered']:9}"
    text += "".join(f"{time['original']:8.3f}{time['default']:8.3f}" for time in row["times"])
    found = ", ".join(f"{change} {state}" for change, state in first["changes"].items())
    unlike = [change for change, _ in first["changes"].items() ^ last["changes"].items()]
    only = f"; in one of two: {', '.join(sorted(set(unlike)))}" if unlike else ""
    return f"{text}  {found}{only}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(__file__).parents[2] / "shared" / "models"
    )
    parser.add_argument("--only", default="", help="models whose name contains this word")
    parser.add_argument("--budget", default="120s", help="of each tuning")
    parser.add_argument("--once", action="store_true", help="tune each model once")
    parser.add_argument(
        "--results", type=Path, help="a file of rows; models that it has are not tuned again"
    )
    options = parser.parse_args()
    models = sorted(
        path for path in options.folder.absolute().glob("*.onnx") if options.only in path.stem
    )
    if not models:
        parser.error(f"{options.folder} has no model whose name contains {options.only!r}")
    rows, failed = tune_all(models, options)
    return verdict(rows, failed) if rows else 1


def tune_all(models: Sequence[Path], options: argparse.Namespace) -> tuple[list[Row], int]:
    """Tune models and print the results. Return their rows, and the number of failures."""
    repeated = 1 if options.once else 2
    where = {"where": machine(False, PROCESSES), "folder": str(options.folder.resolve())}
    alike = {**where, "budget": options.budget, "times": repeated}
    known = {row["model"]: row for row in journal.known(options.results, alike)}
    rows = []
    failed = 0
    print(
        f"{'model':24}{'':9}  {'delivered':9}{'of original':>8} and default, each time", flush=True
    )
    for model in models:
        try:
            row = known.get(model.stem) or measured(model, options.budget, repeated)
        except RuntimeError as error:
            failed += 1
            print(f"{model.stem:24}fails: {error}", flush=True)
            continue
        rows.append(row)
        if model.stem not in known:
            journal.keep(options.results, alike, row)
        print(described(row), flush=True)
    return rows, failed


def verdict(rows: Sequence[Row], failed: int) -> int:
    """Print the means, and return the exit code."""
    times = list(chain.from_iterable(row["times"] for row in rows))
    gain = mean_of(time["default"] for time in times)
    slower = [time for time in times if is_slower(time)]
    print(
        f"{len(rows)} models: delivered ÷ original "
        f"{mean_of(time['original'] for time in times)}, at most "
        f"{max(time['original'] for time in times):.3f}, slower {len(slower)}, failed {failed}; "
        f"delivered ÷ default {gain}\n"
        f"{machine(False, PROCESSES)}"
    )
    return int(bool(slower or failed) or float(gain) > GAIN)


def is_slower(time: Row) -> bool:
    """Whether a result takes longer than allowed, and is certainly slower than the original."""
    return bool(time["original"] > SLOWER and time["surely"] > 1)


if __name__ == "__main__":
    sys.exit(main())
