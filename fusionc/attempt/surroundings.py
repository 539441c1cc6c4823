"""What a result depends on besides its model and its options: for those who keep results, and go on
where they were.
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
    """Versions, the compiler, without which kernels are left out, the files that these flags of
    graph kernel fusion and those of the environment name, and modules and packages beside files of
    passes, which may import them; with the options they are what `disk.ingredients` makes a hash
    of.
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
    """The versions of packages, of those that bring passes, too, and flags of graph kernel fusion
    where the environment has them.
    """
    plugins = {
        entry.dist.name
        for entry in metadata.entry_points(group=ENTRY_POINTS)
        if entry.dist is not None
    }
    names = ("onnx", "onnxruntime", "numpy", *sorted(plugins))
    found = {"fusionc": __version__, **{name: metadata.version(name) for name in names}}
    flags = os.environ.get(VARIABLE)
    return found if flags is None else {**found, VARIABLE: flags}


def compiler_here() -> list[str]:
    """The command of the C compiler; empty where there is none."""
    try:
        return compiler()
    except NoCompiler:
        return []
