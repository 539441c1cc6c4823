"""Where the library of a model lies, and which one fusionc made: one that it did not make is left
alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from fusionc.disk.places import require_replaceable
from fusionc.disk.publish import Library, contains, digest, is_copy, obstacle_error
from fusionc.errors import FusioncError, UsageError

SUFFIX = ".kernels.so"
_DOMAIN = b"fusionc.gk"  # KERNELS of model/operators.py
_TAIL = 1 << 20  # bytes
_MARK = b"kernels of areas, made by fusionc"  # which operators.h puts into each library


def library_of(model: str | os.PathLike[str]) -> Path:
    """Where the kernels of a model file lie: out.onnx → out.kernels.so; other names keep their
    ends, so that no two models have one library: out.ONNX → out.ONNX.kernels.so.
    """
    path = Path(model)
    return path.with_name(path.name.removesuffix(".onnx") + SUFFIX)


def published(file: Path | None, model: Path, source: Path) -> Library:
    """How the library `file`, None for none, goes beside `model`, which was made of the model
    `source`.

    Raises UsageError where a folder is in its place, FusioncError where another file is that
    fusionc did not make, or the library of `source`.
    """
    place = library_of(model)
    is_of_source = os.path.realpath(place) == os.path.realpath(library_of(source))
    if file is None:
        outdated = [place] if is_own(place) and not is_of_source else []
        return Library(None, place, place, (*outdated, *_waiting(place)))
    if place.is_dir():
        problem = "the kernels of the result would lie where a folder is"
        hint = "remove it, or give another --output"
        raise UsageError(problem, where=str(place), hint=hint, code="E10001")
    if os.path.lexists(place) and not is_copy(place, file):
        if is_of_source:
            what = "the kernels of the result would be written over those of the model"
            hint = "give another --output"
            raise FusioncError(what, where=str(place), hint=hint, code="E10001")
        if not is_own(place):
            raise obstacle_error(place)
        require_replaceable(place)
    waiting = place.with_name(f"{_stem(place)}.{digest(file)}{SUFFIX}")
    return Library(
        file, place, waiting, tuple(other for other in _waiting(place) if other != waiting)
    )


def library_for(model: Path) -> Path:
    """The library that a session of a model should use, where there is one.

    That is the one at its usual place, but while a conversion replaces the model, and after one
    that was killed then, it may be one that waits for that place: the one with the kernels that the
    model calls.
    """
    place = library_of(model)
    waiting = _waiting(place)
    if not waiting or not model.is_file():
        return place
    names = [name.encode() + b"\0" for name in _areas(model)]
    return max((place, *waiting), key=lambda library: _count(names, library))


def has_areas(model: Path) -> bool:
    """Whether a model has areas, which want a library."""
    try:
        return _may_have_areas(model) and bool(_areas(model))
    except (
        Exception
    ):  # of protobuf, of onnx, of the system; onnxruntime says what is wrong with the file
        return False


def is_own(library: Path) -> bool:
    """Whether fusionc made a library. It is read, not loaded."""
    try:
        return stat.S_ISREG(library.lstat().st_mode) and contains(library, _MARK)
    except OSError:
        return False


def _may_have_areas(model: Path) -> bool:
    """Functions are the last part of a file, and each ends with its domain: where that of areas is
    not there, a session need not import what reads models.
    """
    with model.open("rb") as file:
        file.seek(max(0, model.stat().st_size - _TAIL))
        return _DOMAIN in file.read()


def _areas(model: Path) -> list[str]:
    """The names of the areas of a model."""
    from fusionc.disk.mapped_weights import read_mapped  # a session seldom needs it
    from fusionc.model.operators import KERNELS

    return [
        function.name for function in read_mapped(model).functions if function.domain == KERNELS
    ]


def _waiting(place: Path) -> list[Path]:
    """The libraries that conversions have left under names of their content."""
    form = re.compile(rf"{re.escape(_stem(place))}\.([0-9a-f]+){re.escape(SUFFIX)}")
    try:
        found = [(path, form.fullmatch(path.name)) for path in sorted(place.parent.iterdir())]
    except OSError:
        return []
    return [path for path, name in found if name and is_own(path) and digest(path) == name[1]]


def _stem(library: Path) -> str:
    return library.name.removesuffix(SUFFIX)


def _count(names: Sequence[bytes], library: Path) -> int:
    """How many of the names of kernels a library has."""
    try:
        return sum(contains(library, name) for name in names)
    except OSError:  # it has come to its place by now
        return 0
