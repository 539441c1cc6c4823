"""Publish files: move them from a temporary folder to their final places. At every instant, either
the complete old set of files exists there, or the complete new set.

A set consists of a model, its data, its library of kernels, and its ready form (files that
onnxruntime loads fast). The only atomic operation is renaming a single file. Therefore, the other
files of the new set are first placed next to those of the old set, and each model finds its own
files:

1. The data file gets a name that contains the hash of its content, `out.onnx.<hash>.data`. The
   tensors of the new model refer to this name. The same weights always get the same name. The
   ready form also gets such a name, `out.<hash>.ready.onnx`.
2. The library also gets such a name, `out.<hash>.kernels.so`. The name of each area contains a hash
   of the area's computation, so `register_kernels` can choose the library with the kernels that the
   model calls.
3. The model is renamed to `out.onnx` and replaces the old model.
4. The description of the ready form is renamed to `out.session.json` and replaces the old one. It
   says which model it belongs to. So between steps 3 and 4, `fusionc.session` loads the new model
   without its ready form.
5. The library is renamed to `out.kernels.so` and replaces the old library. If a program itself
   registers this file between steps 3 and 5, it gets kernels that the model does not call. Then the
   areas run as functions: with correct results, but slower.
6. Data, libraries and ready forms of older sets are removed, if fusionc wrote them and no file in
   the folder mentions them. If another conversion is working in the folder, a later conversion
   removes them.

Before each step, the files of the previous step are flushed to the disk. If the process is killed
between two steps, one set is complete: the old one before step 3, and the new one after it. The
next conversion to the same output removes the remaining files. If a step fails or is interrupted,
the previous steps are undone.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from fusionc.disk.places import cannot_be_written, is_alone, locked
from fusionc.errors import FusioncError

_CHUNK = 16 << 20
_DIGITS = 16  # hexadecimal digits of a hash in a file name
_HASH = "<hash>"
_MAX_MODEL_SIZE = 1 << 31  # bytes; protobuf's limit


@dataclass(frozen=True)
class Library:
    """The library of kernels of a model that will be published."""

    file: Path | None  # the compiled library; None if the model has no kernels
    place: Path  # the final path, next to the model
    waiting: Path  # the path until the model is in its place
    outdated: tuple[Path, ...]  # libraries of older models at the same path, to be removed


@dataclass(frozen=True)
class Companion:
    """A file that describes a model: the session file."""

    file: Path | None  # None if an existing file at `place` is to be removed
    place: Path  # the final path


@dataclass(frozen=True)
class Saved:
    """A result that is written to temporary files."""

    model: Path  # the temporary model file, which can be run
    output: Path  # the final path of the model
    data: tuple[tuple[Path, Path], ...]  # the other temporary files, with their final paths
    workshop: Path  # the temporary folder

    def publish(self, library: Library | None = None, companion: Companion | None = None) -> None:
        """Move the files to their final paths. If this fails, raise FusioncError; then nothing has
        been changed.
        """
        with locked(self.output.parent, 1):
            try:
                _Publication(self, library, companion).run()
            except OSError as error:
                raise cannot_be_written(error, self.output) from error
            with suppress(OSError):
                # Unused files stay if another conversion is running, because it may use them soon.
                if is_alone(self.workshop):
                    _remove(library.outdated if library is not None else ())
                    _remove(
                        [companion.place]
                        if companion is not None and companion.file is None
                        else ()
                    )
                    kept = {target for _, target in self.data}
                    # ready forms first, because they mention data files
                    _remove(_outdated(self.output, ready_of, kept))
                    _remove(_outdated(self.output, data_of, kept))


class _Publication:
    def __init__(self, saved: Saved, library: Library | None, companion: Companion | None) -> None:
        self.workshop = saved.workshop
        self.moves = list(saved.data)
        # files that replace older files, in the order in which they do so
        self.replacements = [(saved.model, saved.output)]
        self.new_folders: list[Path] = []
        if companion is not None and companion.file is not None:
            self.replacements.append((companion.file, companion.place))
        if (
            library is not None
            and library.file is not None
            and not is_copy(library.place, library.file)
        ):
            if any(target == library.place for _, target in saved.data):
                raise obstacle_error(library.place)
            copy = saved.workshop / library.waiting.name
            shutil.copyfile(library.file, copy)
            self.moves.append((copy, library.waiting))
            self.replacements.append((library.waiting, library.place))
        self.former = {  # path of an older file → another name under which it is kept for a while
            place: saved.workshop / f"former {number}"
            for number, (_, place) in enumerate(self.replacements)
            if os.path.lexists(place)
        }

    def run(self) -> None:
        for file in {
            file for file, _ in (*self.replacements, *self.moves) if os.path.lexists(file)
        }:
            _sync(file)
        try:
            for file, target in self.moves:
                self._make_folder(target.parent)
                _put(file, target)
            for folder in {target.parent for _, target in self.moves}:
                _sync_folder(folder)
            for file, place in self.replacements:
                if place in self.former:
                    # on a file system without hard links, this and later steps cannot be undone
                    with suppress(OSError):
                        os.link(place, self.former[place], follow_symlinks=False)
                os.replace(file, place)
                _sync_folder(place.parent)
        except BaseException:
            if any(os.path.lexists(file) for file, _ in self.replacements):
                self._undo()
            raise

    def _make_folder(self, folder: Path) -> None:
        """Create the folder of a data file, which may be a subfolder next to the model."""
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            self.new_folders.append(missing)
            missing.mkdir(exist_ok=True)

    def _undo(self) -> None:
        """Undo all steps so far. Which files exist shows which steps were done."""
        done = [
            place
            for _, place in takewhile(lambda pair: not os.path.lexists(pair[0]), self.replacements)
        ]
        if any(place in self.former and not os.path.lexists(self.former[place]) for place in done):
            return  # this step cannot be undone, but the new set is complete and stays
        try:
            for place in reversed(done):
                os.replace(self.former[place], place) if place in self.former else place.unlink()
        except OSError:
            return
        for file, target in self.moves:
            with suppress(OSError):
                if not os.path.lexists(file):
                    target.unlink()
        for folder in reversed(self.new_folders):
            with suppress(OSError):
                folder.rmdir()


def _put(file: Path, target: Path) -> None:
    """Rename a file. An existing file is never replaced; if there is one, it must have the same
    content. The file is not hard-linked, because onnx refuses data files that have two names.
    """
    if not os.path.lexists(target):
        os.rename(file, target)
    elif not is_copy(target, file):
        raise obstacle_error(target)


def obstacle_error(target: Path) -> FusioncError:
    """The error for another file that already has the path of a file of the result."""
    return FusioncError(
        "a file of the result would be written over a file that fusionc did not write",
        where=str(target),
        hint="move it away, or give another --output",
        code="E13004",
    )


def is_copy(path: Path, original: Path) -> bool:
    """Whether `path` is a regular file (not a link) with the same content as `original`."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size != original.stat().st_size:
        return False
    with open(path, "rb") as first, open(original, "rb") as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(_CHUNK):
                return False
    return True


def digest(path: Path) -> str:
    """The hash of a file's content, in the form that file names contain."""
    with open(path, "rb") as file:
        return short(hashlib.file_digest(file, "sha256").hexdigest())


def short(hexadecimal: str) -> str:
    """The part of a SHA-256 hash that file names contain."""
    return hexadecimal[:_DIGITS]


def data_of(output: Path, content: str) -> Path:
    """The path of a model's data file. `content` is the hash of the file's content."""
    return output.with_name(f"{output.name}.{content}.data")


def ready_of(output: Path, content: str) -> Path:
    """The path of a model's ready form. `content` is the hash of the file's content."""
    return output.with_name(f"{output.name.removesuffix('.onnx')}.{content}.ready.onnx")


def _outdated(
    output: Path, name_of: Callable[[Path, str], Path], kept: Collection[Path]
) -> list[Path]:
    """The files of older sets at `output`. Their names contain the hash of their content, and no
    model in the folder mentions them.
    """
    form = re.compile(
        re.escape(name_of(output, _HASH).name).replace(re.escape(_HASH), f"[0-9a-f]{{{_DIGITS}}}")
    )
    files = [path for path in output.parent.iterdir() if stat.S_ISREG(path.lstat().st_mode)]
    older = [path for path in files if form.fullmatch(path.name) and path not in kept]
    for file in filter(_may_be_model, files) if older else ():
        older = [path for path in older if not contains(file, os.fsencode(path.name))]
    return [path for path in older if name_of(output, digest(path)) == path]


def _may_be_model(file: Path) -> bool:
    return file.suffix not in (".data", ".so") and file.stat().st_size < _MAX_MODEL_SIZE


def contains(file: Path, text: bytes) -> bool:
    """Whether a file contains these bytes. Even a file that is larger than the memory can be
    searched.
    """
    if not file.stat().st_size:
        return False
    with (
        open(file, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(text) >= 0


def _remove(files: Collection[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, if the file system supports that."""
    with suppress(OSError):
        _sync(folder)
