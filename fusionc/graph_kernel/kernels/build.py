"""All areas of a model → one library beside it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.kernels.compile import DoesNotCompile, compiled
from fusionc.graph_kernel.kernels.sizes import Unsupported
from fusionc.graph_kernel.kernels.source import lower, source


@dataclass(frozen=True)
class Built:
    """What came of areas: the library, None if no area got a kernel, and why others got none, by the area's name."""

    library: Path | None
    failed: dict[str, str]


def build(areas: Sequence[Area], library: Path) -> Built:
    """Write the library with the kernels of areas to `library`. Raises NoCompiler."""
    failed: dict[str, str] = {}
    good: list[Area] = []
    for area in areas:
        try:
            lower(area)
            good.append(area)
        except Unsupported as error:
            failed[area.name] = str(error)
    if not good:
        return Built(None, failed)
    try:
        found = compiled(source(good))
    except DoesNotCompile:
        alone = {area.name: _complaint(area) for area in good}
        failed |= {name: complaint for name, complaint in alone.items() if complaint}
        good = [area for area in good if area.name not in failed]
        if not good:
            return Built(None, failed)
        found = compiled(source(good))
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:  # a model in use never sees half a library
        shutil.copyfile(found, copy := Path(folder, library.name))
        copy.replace(library)
    return Built(library, failed)


def _complaint(area: Area) -> str:
    """What the compiler says about one area, "" if nothing."""
    try:
        compiled(source([area]))
    except DoesNotCompile as error:
        return str(error)
    return ""
