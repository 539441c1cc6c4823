"""Measure how long the kernels of a model with 300 areas take to compile.

    python benchmarks/compile_time.py [--areas 300]

The areas are chains of elementwise operators and reductions between products with matrices. There
are three measurements. First: 12 different chains, repeated as the layers of a network are, with an
empty cache of kernels. Second: 12 other chains, with the cache that the first ones left. It has the
steps of blocked areas, which are the same in all libraries. Third: all chains different, which no
real network has.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import fusionc

_UNARY = (
    "Abs",
    "Elu",
    "Erf",
    "Gelu",
    "HardSwish",
    "Mish",
    "Neg",
    "Relu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
)
_BINARY = ("Add", "Max", "Min", "Mul", "Sub")
_CHANNELS = 64
_ROWS = 128


def model(areas: int, kinds: int, seed: int) -> onnx.ModelProto:
    """A model with this many areas of this many kinds, one after the other."""
    nodes = list[onnx.NodeProto]()
    constants = list[onnx.TensorProto]()
    last = "x"
    chains = set[tuple[str, ...]]()
    numbers = random.Random(seed)
    while len(chains) < kinds:
        chains.add(tuple(numbers.choices((*_UNARY, *_BINARY, "Softmax"), k=numbers.randint(5, 9))))
    ordered = sorted(chains)

    def add(op: str, *inputs: str) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"]))
        return str(nodes[-1].output[0])

    def constant(array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(array.astype(np.float32), f"c{len(constants)}"))
        return str(constants[-1].name)

    for number in range(areas):
        last = base = add("MatMul", last, constant(np.eye(_CHANNELS) / 2 + 0.01))
        chain = ordered[number % kinds]
        its = random.Random(repr(chain))
        for op in chain:
            others = (
                [its.choice([base, constant(np.full(_CHANNELS, its.random()))])]
                if op in _BINARY
                else []
            )
            last = add(op, last, *others)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, _ROWS, _CHANNELS])
        for name in ("x", last)
    ]
    graph = helper.make_graph(nodes, "chains", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def seconds_of(path: Path) -> tuple[float, int]:
    """The seconds that the compiler takes for the kernels of a model, and the number of texts that
    it compiles.
    """
    found = list[tuple[float, int]]()
    building: Any = importlib.import_module("fusionc.graph_kernel.library.build_library")
    real = building.compile_units

    def timed(command: Any, flags: Any, units: Any, *places: Any) -> None:
        begin = perf_counter()
        real(command, flags, units, *places)
        found.append((perf_counter() - begin, len(units)))

    building.compile_units = timed
    try:
        fusionc.convert(
            path, output=path.with_name("out.onnx"), enable_graph_kernel=True, verify=False
        )
    finally:
        building.compile_units = real
    return sum(seconds for seconds, _ in found), sum(texts for _, texts in found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--areas", type=int, default=300)
    areas = parser.parse_args().areas
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        path = Path(folder, "in.onnx")
        for seed, kinds in enumerate((12, 12, areas)):
            onnx.save(model(areas, kinds, seed), path)
            seconds, texts = seconds_of(path)
            print(
                f"{areas} areas of {kinds} kinds: {seconds:.1f} s for {texts} "
                f"texts{'' if seed else ', empty cache'}"
            )


if __name__ == "__main__":
    main()
