"""Compare fusionc.optimize with the command line on the models of a shared folder, and optimize
dynamic models with fixed sizes.

    python benchmarks/in_memory.py ../shared
    python benchmarks/in_memory.py ../shared --only bert

Each model is converted by the command line's own function, and by fusionc.optimize from ten
threads, without verification. The bytes must be equal. Some exports with dynamic dimensions have a
static counterpart (unet-dyn-b and unet-dyn-s). They are optimized once more with the sizes of the
counterpart, and may not have more nodes than it. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
from rich.console import Console
from sweep import hydrated

import fusionc

THREADS = 10


def by_command(path: Path, folder: Path) -> str:
    """Convert with the command, and return the path of the result."""
    output = folder / f"{path.stem}-command.onnx"
    fusionc.convert(path, output=output, verify=False, log="null", export_compile_stat=0)
    return output.name


def nodes_with_sizes_of(static: Path, dynamic: Path) -> tuple[int, int]:
    """The number of nodes of the dynamic export with the sizes of the static one, and the number of
    nodes of the static one.
    """
    inputs = onnx.load(static, load_external_data=False).graph.input
    sizes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in inputs
    }
    fixed = fusionc.optimize(dynamic, verify=False, input_shape=sizes)[1]
    return fixed.nodes_after, fusionc.optimize(static, verify=False)[1].nodes_after


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this word")
    options = parser.parse_args()
    console = Console(width=120)
    paths = sorted(
        path for path in (options.shared / "models").glob("*.onnx") if options.only in path.name
    )
    with tempfile.TemporaryDirectory() as name:
        models = [hydrated(path, Path(name)) for path in paths]
        wrong = count_other_bytes(models, Path(name), console)
        wrong += count_larger(models, console)
    return 1 if wrong else 0


def count_other_bytes(models: Sequence[Path], folder: Path, console: Console) -> int:
    """The number of results in memory, made by many threads, that differ from the command's."""
    expected = [by_command(path, folder) for path in models]
    wrong = 0
    # The command leaves weights in a separate file. In memory the model must contain all weights.
    with ThreadPoolExecutor(THREADS) as threads:
        results = threads.map(
            lambda path: fusionc.optimize(path, verify=False)[0].SerializeToString(), models
        )
        for path, command, result in zip(models, expected, results, strict=True):
            whole = onnx.load(folder / command).SerializeToString()
            if result not in (whole, (folder / command).read_bytes()):
                wrong += 1
                console.print(f"{path.stem}: other bytes than the command's")
    console.print(
        f"{len(models)} models from {THREADS} threads, {wrong} with other bytes than the command's"
    )
    return wrong


def count_larger(models: Sequence[Path], console: Console) -> int:
    """The number of dynamic models that have more nodes than their static counterparts with the
    same sizes.
    """
    named = {path.stem: path for path in models}
    wrong = 0
    for stem, path in named.items():
        kind, _, form = stem.rpartition("-")
        if kind.endswith("-dyn") and form != "s" and (static := named.get(f"{kind}-s")):
            fixed, least = nodes_with_sizes_of(static, path)
            wrong += fixed > least
            console.print(
                f"{stem} with the sizes of {static.stem}: {fixed} nodes, that one {least}"
            )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
