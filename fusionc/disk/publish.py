"""Files in a temporary folder → their places: at every instant either the old set or the new one
is there, complete.

A set is a model, its data, its library of kernels and its ready form. Only the renaming of one file
is atomic: that of the model. So the other files of the new set are put next to those of the old one
first, and each model finds its own:

1. The data gets a name with the hash of its content, `out.onnx.<hash>.data`, which the tensors of
   the new model refer to. The same weights always get the same name, whatever is on the disk. The
   ready form gets such a name, too, `out.<hash>.ready.onnx`.
2. The library gets such a name, too, `out.<hash>.kernels.so`. The name of an area has a hash of
   its computation: `register_kernels` takes the library with the kernels that the model
   calls.
3. The model is renamed over the old one.
4. The description of the ready form is renamed to `out.session.json`, over the old one. (It says
   which model it is about: between 3 and 4, `fusionc.session` takes the model as it is.)
5. The library is renamed to `out.kernels.so`, over the old one. (A program that registers that file
   itself between 3 and 5 gets kernels that the model does not call: the model runs as functions,
   correct but slower.)
6. Data, libraries and ready forms of older sets are removed, if fusionc wrote them and no file in
   the folder mentions them any more. If another conversion works in the folder, they stay for the
   next one to remove.

Before each step, the result of the last one is on the disk, not only in its cache. If a process is
killed between two steps, the old set (before 3) or the new one is there, and the next conversion to
that output removes the rest. If a step fails or is interrupted, the steps before it are undone.
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
_DIGITS = 16  # of a hash in a name
_HASH = "<hash>"
_LARGEST_MODEL = 1 << 31  # bytes; protobuf's limit


@dataclass(frozen=True)
class Library:
    """The library of kernels that goes to `place`, next to a model; until the model is there, it is
    at `waiting`. `file` is None if the model has none. `outdated` are the libraries of older models
    of that name, which are removed.
    """

    file: Path | None
    place: Path
    waiting: Path
    outdated: tuple[Path, ...]


@dataclass(frozen=True)
class Companion:
    """A file that describes a model and replaces an older one; if `file` is None, the older one is
    removed.
    """

    file: Path | None
    place: Path


@dataclass(frozen=True)
class Saved:
    """Files that are written but not yet in their places: `model` can be run, `publish` moves all
    files to their places. `data` are the files that go next to the model, with their places;
    `workshop` is the temporary folder.
    """

    model: Path
    output: Path
    data: tuple[tuple[Path, Path], ...]
    workshop: Path

    def publish(self, library: Library | None = None, companion: Companion | None = None) -> None:
        """Move the files to their places. Raises FusioncError if that fails; then everything is as
        it was.
        """
        with locked(self.output.parent, 1):
            try:
                _Publication(self, library, companion).run()
            except OSError as error:
                raise cannot_be_written(error, self.output) from error
            with suppress(OSError):
                # another conversion may be about to use them
                if is_alone(self.workshop):
                    _remove(library.outdated if library is not None else ())
                    _remove(
                        [companion.place]
                        if companion is not None and companion.file is None
                        else ()
                    )
                    kept = {target for _, target in self.data}
                    _remove(
                        _outdated(self.output, ready_of, kept)
                    )  # these first, as they mention data
                    _remove(_outdated(self.output, data_of, kept))


class _Publication:
    def __init__(self, saved: Saved, library: Library | None, companion: Companion | None) -> None:
        self.workshop = saved.workshop
        self.moves = list(saved.data)
        self.replacements = [(saved.model, saved.output)]  # renamed over older files, in this order
        self.made: list[Path] = []  # folders
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
        self.former = {  # the former files, under other names
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
                    # a file system without hard links: from here on nothing can be taken back
                    with suppress(OSError):
                        os.link(place, self.former[place], follow_symlinks=False)
                os.replace(file, place)
                _sync_folder(place.parent)
        except BaseException:
            if any(os.path.lexists(file) for file, _ in self.replacements):
                self._undo()
            raise

    def _make_folder(self, folder: Path) -> None:
        """The folder of a data file, which may be inside that of the model."""
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            self.made.append(missing)
            missing.mkdir(exist_ok=True)

    def _undo(self) -> None:
        """Take back what was done; the files show how far that was."""
        done = [
            place
            for _, place in takewhile(lambda pair: not os.path.lexists(pair[0]), self.replacements)
        ]
        if any(place in self.former and not os.path.lexists(self.former[place]) for place in done):
            return  # the new set is complete, and stays
        try:
            for place in reversed(done):
                os.replace(self.former[place], place) if place in self.former else place.unlink()
        except OSError:
            return
        for file, target in self.moves:
            with suppress(OSError):
                if not os.path.lexists(file):
                    target.unlink()
        for folder in reversed(self.made):
            with suppress(OSError):
                folder.rmdir()


def _put(file: Path, target: Path) -> None:
    """Give a file its name, but never replace another one: the same content may be there. A second
    link would not do, as onnx refuses data that has two names.
    """
    if not os.path.lexists(target):
        os.rename(file, target)
    elif not is_copy(target, file):
        raise obstacle_error(target)


def obstacle_error(target: Path) -> FusioncError:
    """What to say if something else is at the place of a file of the result."""
    return FusioncError(
        "a file of the result would be written over another one, which fusionc did not make",
        where=str(target),
        hint="move it away, or give another --output",
        code="E13004",
    )


def is_copy(path: Path, original: Path) -> bool:
    """Whether `path` is a regular file, not a link to one, with the content of `original`."""
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
    """The hash of a file's content, as names have it."""
    with open(path, "rb") as file:
        return short(hashlib.file_digest(file, "sha256").hexdigest())


def short(hexadecimal: str) -> str:
    """The part of a SHA-256 that names have."""
    return hexadecimal[:_DIGITS]


def data_of(output: Path, content: str) -> Path:
    """The data file of a model whose content has this hash."""
    return output.with_name(f"{output.name}.{content}.data")


def ready_of(output: Path, content: str) -> Path:
    """The ready form of a model, whose file has this hash."""
    return output.with_name(f"{output.name.removesuffix('.onnx')}.{content}.ready.onnx")


def _outdated(
    output: Path, name_of: Callable[[Path, str], Path], kept: Collection[Path]
) -> list[Path]:
    """Files of older sets at `output`: their names have the hash of their content, and no file
    mentions them.
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
    return file.suffix not in (".data", ".so") and file.stat().st_size < _LARGEST_MODEL


def contains(file: Path, text: bytes) -> bool:
    """Whether a file, which may be larger than the memory, contains these bytes."""
    if not file.stat().st_size:
        return False
    with (
        open(file, "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
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
    """Sync a folder if its file system can: some do not let folders be opened for it."""
    with suppress(OSError):
        _sync(folder)
