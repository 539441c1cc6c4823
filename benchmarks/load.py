"""Measure the time and memory that onnxruntime needs to load a model: the original, the result and
its ready form.

    python benchmarks/load.py                       models of 500 MB and more, made by this program
    python benchmarks/load.py --only conv --cold    read the files from the disk, not from its cache
    python benchmarks/load.py --only large          2.3 GB, more than one protobuf file can hold
    python benchmarks/load.py --megabytes 50        smaller models, for a trial

Original, result and ready form are loaded in turn in fresh processes, and medians are shown. The
time is the time to create a session. For the ready form it includes the import of modules that
`fusionc.session` needs. Peak memory is that of the whole process (its ru_maxrss; Python and
onnxruntime take 45 MB): "loaded" after the session is created, "run" after a first run. It includes
touched pages of mapped files. "own" is the memory without these pages, which the process does not
share and the system cannot drop.

For run times, result and ready form run in turn in one process, which begins with either of them:
the ratio is the median over processes of a ratio of medians. Their outputs must be equal bit for
bit. "in a file" are models whose weights are in a separate file already, from which onnxruntime
maps them.

Exit code 1 if the ready form takes more than 0.6 of the original's time or memory to load, if it
runs more than 1.02 times as long as the result, or if its bits differ. This module does not import
large modules, because a process begins with the peak memory of its parent.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx

LIMIT = 0.6
SLOWER = 1.02
WIDTH = 1024
SIZES = {"B": 2, "S": 32}  # sizes of open dimensions


class Network:
    """A chain of nodes, with their weights."""

    def __init__(self) -> None:
        import numpy as np

        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.bytes = 0
        self.random = np.random.default_rng(0)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        import numpy as np

        scale = (shape[0] if len(shape) == 2 else np.prod(shape[1:])) ** -0.5
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(scale))

    def constant(self, value: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        self.bytes += value.nbytes
        return name

    def norm(self, value: str) -> str:
        import numpy as np

        scale = self.constant(np.ones(WIDTH, np.float32))
        bias = self.constant(np.zeros(WIDTH, np.float32))
        return self.node("LayerNormalization", value, scale, bias)

    def product(self, value: str, *shape: int) -> str:
        return self.node("MatMul", value, self.weight(*shape))

    def encoder_layer(self, value: str) -> str:
        """Attention with one head, and a feed-forward network, as in BERT-large: 50 MB."""
        query, key, inner = (self.product(value, WIDTH, WIDTH) for _ in range(3))
        scores = self.node(
            "Softmax", self.node("MatMul", query, self.node("Transpose", key, perm=[0, 2, 1]))
        )
        attended = self.product(self.node("MatMul", scores, inner), WIDTH, WIDTH)
        value = self.norm(self.node("Add", attended, value))
        wide = self.node("Relu", self.product(value, WIDTH, 4 * WIDTH))
        return self.norm(self.node("Add", self.product(wide, 4 * WIDTH, WIDTH), value))

    def convolution(self, value: str, inputs: int, outputs: int, stride: int) -> str:
        made = self.node(
            "Conv", value, self.weight(outputs, inputs, 3, 3), pads=[1] * 4, strides=[stride] * 2
        )
        return self.node("Relu", made)

    def stem(self) -> str:
        value = "image"
        for inputs, outputs in ((3, 64), (64, 256), (256, WIDTH)):
            value = self.convolution(value, inputs, outputs, 2)
        return value

    def embedding(self, rows: int) -> str:
        return self.node("Gather", self.weight(rows, WIDTH), "ids")


def encoder(net: Network, size: int) -> str:
    value = "x"
    while net.bytes < size:
        value = net.encoder_layer(value)
    return value


def gemm(net: Network, size: int) -> str:
    value = net.node("ReduceMean", "x", axes=[1], keepdims=0)
    while net.bytes < size:
        value = net.node("Relu", net.node("Gemm", value, net.weight(WIDTH, WIDTH), transB=1))
    return value


def conv(net: Network, size: int) -> str:
    value = net.stem()
    while net.bytes < size:
        value = net.convolution(value, WIDTH, WIDTH, 1)
    return value


def embedding(net: Network, size: int) -> str:
    value = net.embedding(size * 9 // 10 // (4 * WIDTH))
    while net.bytes < size:
        value = net.node("Relu", net.product(value, WIDTH, WIDTH))
    return value


def mix(net: Network, size: int) -> str:
    import numpy as np

    value = net.stem()
    while net.bytes < size // 3:
        value = net.convolution(value, WIDTH, WIDTH, 1)
    value = net.node("Flatten", net.node("GlobalAveragePool", value))
    words = net.norm(net.embedding(size // 3 // (4 * WIDTH)))
    value = net.node("Add", words, net.node("Unsqueeze", value, net.constant(np.array([1]))))
    while net.bytes < size:
        value = net.encoder_layer(value)
    return value


# by name: the function that makes the model, its size in GB, and whether its weights are in a file
MODELS: dict[str, tuple[Callable[[Network, int], str], float, bool]] = {
    "encoder": (encoder, 0.6, False),
    "encoder in a file": (encoder, 0.6, True),
    "gemm": (gemm, 0.5, False),
    "conv": (conv, 0.5, False),
    "conv in a file": (conv, 0.5, True),
    "embedding": (embedding, 0.5, False),
    "mix": (mix, 0.7, False),
    "large in a file": (encoder, 2.3, True),
}


def make(name: str, size: int, path: Path) -> None:
    """Write a model with this many bytes of weights."""
    import onnx
    from onnx import TensorProto, helper

    function, _, is_external = MODELS[name]
    net = Network()
    output = function(net, size)
    used = {value for node in net.nodes for value in node.input}
    inputs = {
        "x": (TensorProto.FLOAT, ["B", "S", WIDTH]),
        "image": (TensorProto.FLOAT, ["B", 3, 64, 64]),
        "ids": (TensorProto.INT64, ["B", "S"]),
    }
    ports = [helper.make_tensor_value_info(key, *inputs[key]) for key in inputs if key in used]
    y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    graph = helper.make_graph(net.nodes, name.split()[0], ports, [y], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=is_external, location=f"{path.name}.data")


def convert(source: Path, output: Path) -> None:
    import fusionc

    report = fusionc.convert(source, output=output, ready=True, export_compile_stat=0, timeout=0)
    print(json.dumps(next(notice for notice in report.notices if "ready form" in notice)))


def session_of(kind: str, path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # only one at a time, because the threads of several sessions would disturb each other
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if kind == "ready":
        import fusionc

        return fusionc.session(path, options)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds_of(session: Any) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    feeds = {}
    for port in session.get_inputs():
        shape = [SIZES.get(size, size) for size in port.shape]
        is_float = port.type == "tensor(float)"
        feeds[port.name] = (
            random.standard_normal(shape, np.float32)
            if is_float
            else random.integers(0, 1000, shape)
        )
    return feeds


def load(kind: str, path: Path) -> None:
    """Load a model in this process, run it once, and print seconds and megabytes."""
    import_module("onnxruntime")
    begin = time.perf_counter()
    session = session_of(kind, path)
    loaded = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    feeds = feeds_of(session)
    begin = time.perf_counter()
    session.run(None, feeds)
    ran = time.perf_counter() - begin
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(
        json.dumps(
            [
                loaded,
                peak / 1e3,
                loaded + ran,
                highest / 1e3,
                int(status["RssAnon"].split()[0]) / 1e3,
            ]
        )
    )


def run(path: Path, seconds: float, seed: int) -> None:
    """Print the run time of the result, the ratio of the ready form, and whether both give the same
    bits.
    """
    kinds = ["result", "ready"]
    sessions = {kind: session_of(kind, path) for kind in (kinds[::-1] if seed % 2 else kinds)}
    feeds = feeds_of(sessions["result"])
    first = [session.run(None, feeds)[0].tobytes() for session in sessions.values()]
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ready"]) < 5:
        for kind, session in sessions.items():
            begin = time.perf_counter()
            session.run(None, feeds)
            times[kind].append(time.perf_counter() - begin)
    result, ready = (statistics.median(values) for values in times.values())
    print(json.dumps([result, ready / result, first[0] == first[1]]))


def forget(folder: Path) -> None:
    """Let the system drop cached contents of the files in a folder."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def child(*arguments: object) -> Any:
    """Run one of these functions in another process, and return its output."""
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    return json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[
            -1
        ]
    )


def compare(name: str, options: argparse.Namespace) -> bool:
    """Measure one model. Return whether its ready form is within the limits."""
    columns, runs = measured(name, options)
    for kind, (seconds, loaded, with_run, peak, own) in columns.items():
        figures = f"{seconds:8.2f}{loaded:9.0f}{with_run:9.2f}{peak:8.0f}{own:8.0f}"
        print(f"{name if kind == 'original' else '':20}{kind:10}{figures}", flush=True)
    parts = [
        ready / original
        for ready, original in zip(columns["ready"], columns["original"], strict=True)
    ]
    median, ratio = (statistics.median(run[i] for run in runs) for i in range(2))
    is_same = all(run[2] for run in runs)
    said = "" if is_same else "  OTHER BITS"
    figures = "".join(
        f"{part:{width}.2f}" for part, width in zip(parts, (8, 9, 9, 8, 8), strict=True)
    )
    print(f"{'':20}{'ratio':10}{figures}{median * 1e3:9.1f} ms x {ratio:.3f}{said}", flush=True)
    return bool(is_same and max(parts[:2]) <= LIMIT and ratio <= SLOWER)


def measured(
    name: str, options: argparse.Namespace
) -> tuple[dict[str, list[float]], list[tuple[float, float, bool]]]:
    """The medians of the output of `load` for each form of a model, and the output of `run` in each
    process.
    """
    _, gigabytes, _ = MODELS[name]
    size = int(gigabytes * 2e6 * options.megabytes)
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        source = folder / "in.onnx"
        output = folder / "out.onnx"
        child("make", name, size, source)
        child("convert", source, output)
        rows: dict[str, list[list[float]]] = {"original": [], "result": [], "ready": []}
        for _ in range(options.processes):
            for kind, numbers in rows.items():
                if options.cold:
                    forget(folder)
                numbers.append(child("load", kind, source if kind == "original" else output))
        each = options.seconds / options.processes
        runs = [child("run", output, each, seed) for seed in range(options.processes)]
    columns = {kind: [*map(statistics.median, zip(*rows[kind], strict=True))] for kind in rows}
    return columns, runs


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        what, *rest = sys.argv[2:]
        match what:
            case "make":
                make(rest[0], int(rest[1]), Path(rest[2]))
                print("null")
            case "convert":
                convert(Path(rest[0]), Path(rest[1]))
            case "load":
                load(rest[0], Path(rest[1]))
            case _:
                run(Path(rest[0]), float(rest[1]), int(rest[2]))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--megabytes", type=int, default=500, help="the size of the smallest (500)")
    parser.add_argument("--processes", type=int, default=5, help="for each model and kind (5)")
    parser.add_argument("--seconds", type=float, default=50.0, help="of runs, for each model (50)")
    parser.add_argument("--cold", action="store_true", help="read the files from the disk")
    parser.add_argument("--folder", type=Path, help="where the models lie meanwhile; room for 8 GB")
    options = parser.parse_args()
    print(
        f"{'model':20}{'':10}{'load s':>8}{'loaded':>9}{'+ run s':>9}{'run MB':>8}{'own':>8}"
        f"{'a run':>11}, ready/result"
    )
    found = [compare(name, options) for name in MODELS if options.only in name]
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
