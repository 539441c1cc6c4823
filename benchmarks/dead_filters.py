"""Measure how much the subnormal weights of filters that died in training cost, and how much of
this cost remains after convert.

    python benchmarks/dead_filters.py
    python benchmarks/dead_filters.py --filters 0.3 --processes 5

The network has six convolutions with BatchNormalization. Training has left subnormal weights in
some of the filters. It is compared with the same network in which these weights are 0: both
unchanged, and both after convert, in turn in fresh processes. On many processors a product with a
subnormal number takes a hundred times as long. On others (AMD's since Zen 4) it does not, and all
ratios are 1. Exit code 1 if convert leaves a subnormal constant, if it changes an output by more
than 1e-30, or if its result takes more than 1.05 of the time of the clean network's result.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from interleaved import in_fresh_processes
from onnx import TensorProto, helper, numpy_helper

import fusionc

LAYERS = 6
CHANNELS = 64
SIZE = 56
SMALLEST = np.finfo(np.float32).smallest_normal


def network(dead: float, value: float) -> onnx.ModelProto:
    """Convolutions with BatchNormalization. A part of their filters consists of numbers of this
    size.
    """
    rng = np.random.default_rng(0)
    nodes = []
    weights = []
    x = "x"
    for layer in range(LAYERS):
        filters = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 24
        is_dead = rng.random(CHANNELS) < dead
        filters[is_dead] = value * rng.uniform(0.2, 1, filters[is_dead].shape)
        gamma = rng.uniform(0.5, 1.5, CHANNELS)
        statistics_ = {
            "s": gamma,
            "b": rng.normal(size=CHANNELS) / 9,
            "m": np.zeros(CHANNELS),
            "v": np.ones(CHANNELS),
        }
        named = {"w": filters} | statistics_
        weights += [
            numpy_helper.from_array(a.astype(np.float32), f"{n}{layer}") for n, a in named.items()
        ]
        nodes.append(helper.make_node("Conv", [x, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(
            helper.make_node(
                "BatchNormalization", [f"c{layer}", *(f"{n}{layer}" for n in "sbmv")], [f"n{layer}"]
            )
        )
        nodes.append(helper.make_node("Relu", [f"n{layer}"], [x := f"r{layer}"]))
    shape = [1, CHANNELS, SIZE, SIZE]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", x)]
    graph = helper.make_graph(nodes, "dead_filters", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def subnormal(model: onnx.ModelProto) -> int:
    arrays = [
        numpy_helper.to_array(i)
        for i in model.graph.initializer
        if i.data_type == TensorProto.FLOAT
    ]
    return sum(int(((a != 0) & (np.abs(a) < SMALLEST)).sum()) for a in arrays)


def output(model: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--filters", type=float, default=0.1, help="how many of the filters are dead"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of measuring, for each form and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = np.random.default_rng(1).standard_normal((1, CHANNELS, SIZE, SIZE)).astype(np.float32)
        np.savez(folder / "inputs.npz", x=x)
        forms = {
            kind: folder / f"{kind}.onnx"
            for kind in ("clean", "dead", "clean_converted", "converted")
        }
        onnx.save(network(options.filters, 0.0), forms["clean"])
        onnx.save(network(options.filters, 1e-39), forms["dead"])
        fusionc.convert(forms["clean"], output=forms["clean_converted"], export_compile_stat=0)
        fusionc.convert(forms["dead"], output=forms["converted"], export_compile_stat=0)
        left = {kind: subnormal(onnx.load(forms[kind])) for kind in ("dead", "converted")}
        difference = float(
            np.abs(output(forms["clean_converted"], x) - output(forms["converted"], x)).max()
        )
        runs = in_fresh_processes(forms, folder / "inputs.npz", options.seconds, options.processes)
    medians = {kind: statistics.median(run[kind] for run in runs) for kind in forms}
    for kind, time in medians.items():
        print(
            f"{kind:16} {time * 1e3:8.2f} ms  {time / medians['clean']:6.3f} of the clean network's"
        )
    ratio = statistics.median(run["converted"] / run["clean_converted"] for run in runs)
    print(
        f"subnormal constants {left['dead']} -> {left['converted']}, largest difference of "
        f"an output {difference:.0e}"
    )
    print(f"converted, with dead filters to without: {ratio:.3f}")
    return 1 if left["converted"] or difference > 1e-30 or ratio > 1.05 else 0


if __name__ == "__main__":
    sys.exit(main())
