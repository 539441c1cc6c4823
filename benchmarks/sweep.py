"""Convert all available real models: with the default switches, with all passes off, and with each
single pass.

    python benchmarks/sweep.py ../shared              everything (the light models of onnx, models/,
                                                      peer_models/)
    python benchmarks/sweep.py ../shared --only bert  models whose path contains a word
    python benchmarks/sweep.py ../shared --default    the default switches only

There must be no crash and no difference. If a pass took effect, both models run in onnxruntime. If
none did, the result must be the same proto. Models that onnxruntime cannot run are converted and
counted separately. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from runpy import run_path

import onnx
from rich.console import Console

import fusionc
from fusionc.disk.load import load
from fusionc.disk.save import save
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite import Pass
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model
from fusionc.switches import decide
from fusionc.verify import verify

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def models(shared: Path) -> Iterator[Path]:
    yield from sorted(LIGHT.glob("*.onnx"))
    yield from sorted((shared / "models").glob("*.onnx"))
    yield from sorted((shared / "peer_models").rglob("*.onnx"))


def hydrated(path: Path, folder: Path) -> Path:
    """The model itself, or a copy in which removed weights are filled in."""
    recipe = path.parent / "skeleton.py"
    if not recipe.exists():
        return path
    full = folder / path.name
    run_path(os.fspath(recipe))["hydrate"](onnx.load(path), os.fspath(full))
    return full


def configurations(default_only: bool) -> Iterator[tuple[str, list[Pass]]]:
    enabled = decide(PASSES).enabled
    yield "default", [p for p in PASSES if p.name in enabled]
    if not default_only:
        yield "all off", []
        yield from ((p.name, [p]) for p in PASSES)


def convert(path: Path, passes: Sequence[Pass], folder: Path) -> tuple[str, int, onnx.ModelProto]:
    """The outcome as one word, the number of rewrites, and the result."""
    original = load(path)
    proto = load(path)
    log = RewriteLog()
    if passes:
        graph = typed_model(proto, os.fspath(path.parent))
        run(graph, passes, log)
        proto = write_back(graph)
    if not log.count:
        return ("same" if proto == original else "CHANGED"), 0, proto
    with save(proto, path.parent, folder / "result.onnx", None) as saved:
        found = verify(path, saved.model)
    outcome = found.status if found.status != "different" else _delivered(path, passes, folder)
    return outcome, log.count, proto


def _delivered(path: Path, passes: Sequence[Pass], folder: Path) -> str:
    """The outcome for a user if all rewrites together give a wrong model: without the rewrites that
    onnxruntime cannot run.
    """
    switches: dict[str, dict[str, str]] = {
        "GraphFusion": {"ALL": "off"},
        "UBFusion": {"ALL": "off"},
    }
    for pass_ in passes:
        switches[pass_.kind][pass_.name] = "on"
    (folder / "switches.json").write_text(json.dumps({"Switch": switches}))
    try:
        report = fusionc.convert(
            path,
            output=folder / "delivered.onnx",
            fusion_switch_file=folder / "switches.json",
            log="null",
        )
    except fusionc.VerificationError as error:
        return f"DIFFERENT {error}"
    return f"{report.verification}"


def leftovers(proto: onnx.ModelProto) -> int:
    """The number of remaining BatchNormalizations that are the only users of a Conv."""
    makers = {output: node.op_type for node in proto.graph.node for output in node.output}
    users = [name for node in proto.graph.node for name in node.input] + [
        value.name for value in proto.graph.output
    ]
    return sum(
        node.op_type == "BatchNormalization"
        and makers.get(node.input[0]) == "Conv"
        and users.count(node.input[0]) == 1
        for node in proto.graph.node
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--default", action="store_true")
    options = parser.parse_args()
    console = Console(highlight=False)
    wrong = 0
    impossible = 0
    started = time.perf_counter()
    total = effected = 0
    for path in models(options.shared):
        if options.only not in str(path):
            continue
        with tempfile.TemporaryDirectory() as name:
            full = hydrated(path, Path(name))
            for label, passes in configurations(options.default):
                total += 1
                try:
                    outcome, count, proto = convert(full, passes, Path(name))
                    if label == "default" and (left := leftovers(proto)):
                        outcome = f"{left} BatchNormalization LEFT"
                except Exception as error:
                    outcome = f"CRASH {type(error).__name__}: {error}"
                    count = 0
                effected += count
                impossible += outcome == "impossible"
                if any(word in outcome for word in ("CRASH", "DIFFERENT", "CHANGED", "LEFT")):
                    wrong += 1
                    console.print(f"{path.name}, {label}: {outcome}", markup=False)
    seconds = time.perf_counter() - started
    console.print(
        f"{total} conversions, {effected} rewrites, {wrong} wrong, {impossible} could not be "
        "compared because "
        f"onnxruntime cannot run the original, {seconds:.0f} s"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
