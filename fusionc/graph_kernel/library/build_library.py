"""All areas of a model → one library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.compile import DoesNotCompile, compiled
from fusionc.graph_kernel.c.source import reason_against, source


@dataclass(frozen=True)
class Built:
    """What came of areas: the library, None if no area got a kernel, and why others got none, by the area's name.

    The library lies in the cache; whoever needs it for longer has a copy.
    """

    library: Path | None
    failed: dict[str, str]


def build(areas: Sequence[Area]) -> Built:
    """Make the library with the kernels of areas. Raises NoCompiler."""
    failed = _failed(areas, reason_against)
    try:
        library = _library(areas, failed)
    except DoesNotCompile:
        failed |= _failed([area for area in areas if area.name not in failed], _complaint)
        library = _library(areas, failed)
    return Built(library, failed)


def _failed(areas: Sequence[Area], reason_against: Callable[[Area], str | None]) -> dict[str, str]:
    reasons = {area.name: reason_against(area) for area in areas}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _library(areas: Sequence[Area], failed: Collection[str]) -> Path | None:
    good = [area for area in areas if area.name not in failed]
    return compiled(source(good)) if good else None


def _complaint(area: Area) -> str | None:
    """What the compiler says against one area, None if nothing."""
    try:
        compiled(source([area]))
    except DoesNotCompile as error:
        return str(error)
    return None
