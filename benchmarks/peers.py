"""Nodes and conversion time beside those of other optimizers, on the models of a shared folder.

    pip install onnxsim onnxslim onnxscript
    python benchmarks/peers.py ../shared                       the portable passes, at each model's own opset
    python benchmarks/peers.py ../shared --target_opset 23     the same, raised to a newer opset first
    python benchmarks/peers.py ../shared --only bert           models whose name contains a word

For each model: nodes before, after fusionc, after the best of the others, and seconds of fusionc and onnxsim (median
of three, one after the other in one process, without verification). Nodes in subgraphs and functions count. Exit code
1 if fusionc leaves more than the best of the others plus two, or is slower than onnxsim in the geometric mean.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
import onnxruntime
from onnx import ModelProto
from rich.console import Console
from sweep import hydrated

from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.protos import nodes_of
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model
from fusionc.target_opset import raise_opset

Optimizer = Callable[[ModelProto], ModelProto]
MARGIN = 2  # nodes


def fusionc(model: ModelProto, target_opset: int | None = None) -> ModelProto:
    if target_opset is not None:
        model = raise_opset(model, target_opset)
    graph = typed_model(model, "")
    run(graph, [p for p in PASSES if p.kind == "GraphFusion" and p.default != "off"], RewriteLog())
    return write_back(graph)


def onnxsim(model: ModelProto) -> ModelProto:
    from onnxsim import simplify

    result: ModelProto = simplify(model)[0]
    return result


def onnxslim(model: ModelProto) -> ModelProto:
    from onnxslim import slim

    result: ModelProto = slim(model)
    return result


def onnxscript(model: ModelProto) -> ModelProto:
    from onnxscript import optimizer, rewriter

    result: ModelProto = rewriter.rewrite(optimizer.optimize(model))
    return result


def onnxruntime_basic(model: ModelProto) -> ModelProto:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/model.onnx"
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


OTHERS: tuple[Optimizer, ...] = (onnxsim, onnxslim, onnxscript, onnxruntime_basic)


def count(model: ModelProto) -> int:
    return sum(1 for _ in nodes_of(model))


def attempt(optimizer: Optimizer, model: ModelProto) -> tuple[int | None, float]:
    """Nodes that are left and seconds; None where the optimizer gives up."""
    copy = ModelProto()
    copy.CopyFrom(model)
    start = time.perf_counter()
    try:
        result = optimizer(copy)
    except Exception:  # whatever another tool raises
        return None, math.nan
    return count(result), time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this word")
    parser.add_argument("--target_opset", type=int, help="of what fusionc makes")
    parser.add_argument("--rounds", type=int, default=3, help="of the time measurement; 1 where only nodes matter")
    options = parser.parse_args()
    console, ratios, times, worse = Console(width=140), [], [], 0
    console.print(f"{'model':36}{'nodes':>7}{'fusionc':>9}{'best':>7}  {'of':18}{'fusionc s':>10}{'onnxsim s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        ours_at = partial(fusionc, target_opset=options.target_opset)
        for path in sorted(p for p in (options.shared / "models").glob("*.onnx") if options.only in p.name):
            full = hydrated(path, Path(folder))
            model = onnx.load(full)
            full.unlink(missing_ok=full.parent == Path(folder))
            before, left = count(model), {o.__name__: attempt(o, model)[0] for o in OTHERS}
            found = {name: nodes for name, nodes in left.items() if nodes is not None}
            best = min(found, key=found.__getitem__, default="none")
            rounds = [(attempt(ours_at, model), attempt(onnxsim, model)[1]) for _ in range(options.rounds)]
            ours = rounds[0][0][0]
            assert ours is not None, f"fusionc cannot convert {path}"
            seconds = statistics.median(r[0][1] for r in rounds), statistics.median(r[1] for r in rounds)
            ratios.append((ours / before, min([*found.values(), before]) / before))
            times.append(seconds[0] / seconds[1])
            is_worse = ours > found.get(best, before) + MARGIN
            worse += is_worse
            console.print(
                f"{path.stem:36}{before:7}{ours:9}{found.get(best, before):7}  {best:18}"
                f"{seconds[0]:10.3f}{seconds[1]:10.3f}{'  more nodes' if is_worse else ''}",
                highlight=False,
                style="red" if is_worse else None,
            )
    nodes, peers = (math.exp(statistics.fmean(math.log(r[i]) for r in ratios)) for i in (0, 1))
    time_ratio = math.exp(statistics.fmean(math.log(t) for t in times if t == t))
    console.print(f"nodes after / before: fusionc {nodes:.3f}, the best of the others for each model {peers:.3f}")
    console.print(f"{worse} models with more than {MARGIN} nodes above the best; time to onnxsim's: {time_ratio:.3f}")
    return 1 if worse or time_ratio > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
