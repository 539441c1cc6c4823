"""The path of a model's library. A file at that path that fusionc did not build is never
changed.
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
_TAIL = 1 << 20  # bytes at the end of a model file that are searched for the domain of areas
_MARK = b"kernels of areas, made by fusionc"  # text that operators.h puts into each library


def library_of(model: str | os.PathLike[str]) -> Path:
    """The path of a model file's kernels: out.onnx → out.kernels.so.

    If the file's suffix is not .onnx, it is kept, so that two models never share a library:
    out.ONNX → out.ONNX.kernels.so.
    """
    path = Path(model)
    return path.with_name(path.name.removesuffix(".onnx") + SUFFIX)


def published(file: Path | None, model: Path, source: Path) -> Library:
    """How to store the library `file` next to `model`, which was converted from `source`.

    If `file` is None, nothing is stored, and outdated libraries are removed.
    Raises UsageError if a folder has the library's name. Raises FusioncError if a file with that
    name was not built by fusionc, or is the library of `source`.
    """
    place = library_of(model)
    is_of_source = os.path.realpath(place) == os.path.realpath(library_of(source))
    if file is None:
        outdated = [place] if is_own(place) and not is_of_source else []
        return Library(None, place, place, (*outdated, *_waiting(place)))
    if place.is_dir():
        problem = "the library of the result's kernels would have the same name as a folder"
        hint = "remove the folder, or give another --output"
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
    """The library that a session of a model should use. It may not exist.

    It is usually the path that `library_of` gives. While a conversion replaces the model, or after
    such a conversion was killed, the kernels that the model calls may be in a waiting library (a
    library that is stored under a temporary name).
    """
    place = library_of(model)
    waiting = _waiting(place)
    if not waiting or not model.is_file():
        return place
    names = [name.encode() + b"\0" for name in _areas(model)]
    return max((place, *waiting), key=lambda library: _count(names, library))


def has_areas(model: Path) -> bool:
    """Whether a model has areas, which need a library to run with kernels."""
    try:
        return _may_have_areas(model) and bool(_areas(model))
    except (
        Exception
    ):  # of protobuf, onnx or the system; onnxruntime will say what is wrong with the file
        return False


def is_own(library: Path) -> bool:
    """Whether fusionc built a library. The file is read, but its code is not loaded."""
    try:
        return stat.S_ISREG(library.lstat().st_mode) and contains(library, _MARK)
    except OSError:
        return False


def _may_have_areas(model: Path) -> bool:
    """Whether the name of the domain of areas occurs at the end of a model's file.

    Functions are the last part of a file, and each function ends with its domain. If the name does
    not occur there, the model need not be parsed, and the modules for it are not imported.
    """
    with model.open("rb") as file:
        file.seek(max(0, model.stat().st_size - _TAIL))
        return _DOMAIN in file.read()


def _areas(model: Path) -> list[str]:
    """The names of the areas of a model."""
    from fusionc.disk.mapped_weights import read_mapped  # few sessions need it
    from fusionc.model.operators import KERNELS

    return [
        function.name for function in read_mapped(model).functions if function.domain == KERNELS
    ]


def _waiting(place: Path) -> list[Path]:
    """The waiting libraries. A conversion stores a library under a name with a digest until the
    model that calls it is in place.
    """
    form = re.compile(rf"{re.escape(_stem(place))}\.([0-9a-f]+){re.escape(SUFFIX)}")
    try:
        names = filter(form.fullmatch, os.listdir(place.parent))  # of perhaps thousands
    except OSError:
        return []
    libraries = [place.parent / name for name in sorted(names)]
    return [
        library
        for library in libraries
        if is_own(library) and digest(library) == library.name.split(".")[-3]
    ]


def _stem(library: Path) -> str:
    return library.name.removesuffix(SUFFIX)


def _count(names: Sequence[bytes], library: Path) -> int:
    """How many of these kernels are in a library."""
    try:
        return sum(contains(library, name) for name in names)
    except OSError:  # the file is gone, because a conversion has just moved it to its final place
        return 0
