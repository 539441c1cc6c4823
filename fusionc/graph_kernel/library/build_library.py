"""Build one library with the kernels of all areas of a model, or take it from the cache."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.compile import (
    FLAGS,
    Contents,
    DoesNotCompile,
    Tell,
    Unit,
    compile_units,
    compiler,
    quiet,
    version_of,
)
from fusionc.graph_kernel.c.source import reason_against, units
from fusionc.graph_kernel.library.cache import cache_folder, forget_oldest, intact, put, turn

# Other libraries have the same texts, so their objects are kept.
_SHARED = (Contents.STEPS, Contents.RUNTIME)


@dataclass(frozen=True)
class Built:
    """The library with the kernels, and the areas that have no kernel.

    The library is a file in the cache. The cache may remove it, so copy it to keep it.
    """

    library: Path | None  # None if no area got a kernel
    failed: dict[str, str]  # names of areas without a kernel → the reasons


def build(areas: Sequence[Area], tell: Tell = quiet) -> Built:
    """Build the library with the kernels of areas. `tell` receives the progress, as in
    `compile_units`.

    Raises NoCompiler, CompilerHangs, or FusioncError if the cache cannot be written.
    """
    failed = _failed(areas, reason_against)
    try:
        library = _library(areas, failed, tell)
    except DoesNotCompile:
        failed |= _failed([area for area in areas if area.name not in failed], _complaint)
        library = _library(areas, failed, tell)
    return Built(library, failed)


def _failed(areas: Sequence[Area], reason_against: Callable[[Area], str | None]) -> dict[str, str]:
    reasons = {area.name: reason_against(area) for area in areas}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _library(areas: Sequence[Area], failed: Collection[str], tell: Tell) -> Path | None:
    good = [area for area in areas if area.name not in failed]
    return compiled(units(good), tell) if good else None


def _complaint(area: Area) -> str | None:
    """The compiler's error for one area. `None` if it compiles."""
    try:
        compiled(units([area]))
    except DoesNotCompile as error:
        return str(error)
    return None


def compiled(units: Sequence[Unit], tell: Tell = quiet) -> Path:
    """The library built from C texts. If the same compiler has already built it with the same
    flags, it comes from the cache.

    If several processes need the same library or objects at once, one of them compiles these, and
    the others wait. Raises NoCompiler, DoesNotCompile, CompilerHangs, or FusioncError if the cache
    cannot be written.
    """
    command = compiler()
    key = _key(units, command)
    if library := intact([key], ".so").get(key):
        return library
    try:
        with turn("library", key):
            library = intact([key], ".so").get(key) or _made(units, command, key, tell)
    except OSError as error:
        raise FusioncError(
            f"the cache of kernels cannot be written: {error.strerror}",
            where=str(cache_folder()),
            hint=(
                "make room there, or name another folder in the environment variable XDG_CACHE_HOME"
            ),
        ) from error
    forget_oldest(library.parent)
    return library


def _made(units: Sequence[Unit], command: Sequence[str], key: str, tell: Tell) -> Path:
    """Compile the objects that the cache lacks, link them, and move them and the library into the
    cache. Return the library.
    """
    keys = {unit: _key([unit], command) for unit in units if unit.contents in _SHARED}
    with ExitStack() as stack:
        if intact(keys.values(), ".o").keys() != set(keys.values()):
            stack.enter_context(turn("objects", _key(list(keys), command)))
        folder = Path(stack.enter_context(TemporaryDirectory(dir=cache_folder(), prefix="build-")))
        cached = intact(keys.values(), ".o")
        parts = {unit: cached.get(part, folder / f"{part}.o") for unit, part in keys.items()}
        library = folder / f"{key}.so"
        compile_units(command, FLAGS, units, library, parts, tell)
        for part in parts.values():
            # If there is only one C text, the compiler builds the library without an object file.
            if part.parent == folder and part.is_file():
                put(part, part.stem)
        return put(library, key)


def _key(units: Sequence[Unit], command: Sequence[str]) -> str:
    """A key that is different whenever the compiler might build a different library."""
    said = [word for unit in units for word in (unit.text, *unit.flags(command))]
    here = [sys.platform, platform.machine()]  # several machines may share the cache
    if any(
        "native" in word for word in command
    ):  # the code may then run only on this exact processor
        here.append(platform.node())
    key = "\0".join([*said, *command, *FLAGS, version_of(tuple(command)), *here])
    return hashlib.sha256(key.encode()).hexdigest()[:32]
