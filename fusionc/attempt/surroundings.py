"""Everything that a result depends on, except its model and its options. Code that reuses results
or continues interrupted work compares this first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from fusionc.custom.loading import ENTRY_POINTS
from fusionc.graph_kernel.c.compile import NoCompiler, compiler
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE, file_of_flags
from fusionc.version import __version__


def surroundings(flags: str | None, custom_passes: Sequence[Path]) -> dict[str, Any]:
    """Everything in addition to the model and the options that may change a result:

    - versions of packages
    - the C compiler, which kernels need
    - the files that graph kernel flags name, in the option and in the environment
    - Python modules and packages next to files of custom passes, because the passes may import them

    `disk.ingredients` hashes these together with the options.
    """
    folders = {file.resolve().parent for file in custom_passes}
    packages = {init.parent for folder in folders for init in folder.glob("*/__init__.py")}
    modules = sorted(
        {
            *(m for f in folders for m in f.glob("*.py")),
            *(m for p in packages for m in p.rglob("*.py")),
        }
    )
    files = (file_of_flags(text) for text in (flags, os.environ.get(VARIABLE)))
    read = {"flags": tuple(Path(file) for file in files if file), "modules": tuple(modules)}
    return {"versions": versions(), "compiler": compiler_here(), **read}


def versions() -> dict[str, str]:
    """The versions of packages, including installed packages that add passes. Also the graph
    kernel flags of the environment, if they are set.
    """
    plugins = {
        entry.dist.name
        for entry in metadata.entry_points(group=ENTRY_POINTS)
        if entry.dist is not None
    }
    names = ("onnx", "onnxruntime", "numpy", *sorted(plugins))
    numbers = {"fusionc": __version__, **{name: metadata.version(name) for name in names}}
    flags = os.environ.get(VARIABLE)
    return numbers if flags is None else {**numbers, VARIABLE: flags}


def compiler_here() -> list[str]:
    """The command of the C compiler; empty if there is none."""
    try:
        return compiler()
    except NoCompiler:
        return []
