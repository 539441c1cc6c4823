"""Where files may be written: a temporary folder next to the result, a lock on that folder, and
whether the place can be written to. The temporary folder `.fusionc-…` is on the file system of the
result, so that a file moves out of it by renaming. It is locked while its process lives: a folder
with a free lock was left by a process that was killed, and the next conversion in that folder
removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

from fusionc.errors import FusioncError, UsageError

if sys.platform != "win32":
    import fcntl

# the wire types in a ModelProto
_NUMBER = 0
_BYTES = 2
_GRAPH = 7  # the field of its graph
_PREFIX = ".fusionc-"
_WORKSHOP = re.compile(re.escape(_PREFIX) + "[0-9a-f]{8}")


def cannot_be_written(error: OSError, where: Path) -> FusioncError:
    """What to say if the system refuses to write the result, perhaps because the folder does not
    exist.
    """
    what = f"the result cannot be written: {error.strerror or error}"
    if isinstance(error, FileNotFoundError) and not where.exists():
        hint = f"make the folder, mkdir -p {shlex.quote(str(where))}, or give another one"
        return UsageError(what, where=str(where), hint=hint, code="E13004")
    return FusioncError(
        what,
        where=str(where),
        hint=(
            "give a folder that exists, can be written and has room with --output (fusionc "
            "bisect: --output_dir)"
        ),
        code="E13004",
    )


def require_place(output: Path) -> None:
    """Raise FusioncError if no file can be put there, before much time is spent on making one."""
    with workshop(output.parent):
        pass
    require_replaceable(output)
    if not _may_go(output):
        what = "the result would replace a file that is no ONNX model"
        raise FusioncError(
            what, where=str(output), hint="move it away, or give another --output", code="E13004"
        )


def require_replaceable(path: Path) -> None:
    """Raise FusioncError if only another user may replace the file that is there."""
    with suppress(FileNotFoundError):
        folder = os.stat(path.parent)
        present = os.lstat(path)
        is_sticky = hasattr(os, "geteuid") and folder.st_mode & stat.S_ISVTX
        if is_sticky and os.geteuid() not in (0, folder.st_uid, present.st_uid):
            what = (
                "the result cannot be written: in this folder nobody may replace the files of "
                "others"
            )
            raise FusioncError(what, where=str(path), hint="give another --output", code="E13004")


def _may_go(path: Path) -> bool:
    """Whether a file may be replaced: it does not exist, is empty or a link, or is a model."""
    try:
        return (
            not path.is_file() or path.is_symlink() or path.stat().st_size == 0 or _is_model(path)
        )
    except (OSError, ValueError):
        return False


def _is_model(path: Path) -> bool:
    """Whether a file has the form of a ModelProto with a graph. Its parts, which may be large, are
    skipped and not read.
    """
    fields = set()
    size = path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < size:
            field, wire_type = divmod(_varint(file), 8)
            value = _varint(file)
            if (
                field == 0
                or wire_type not in (_NUMBER, _BYTES)
                or (wire_type == _BYTES and value > size)
            ):
                return False
            if wire_type == _BYTES:
                file.seek(value, os.SEEK_CUR)
            fields.add(field)
        return file.tell() == size and _GRAPH in fields


def _varint(file: BinaryIO) -> int:
    """The next number in the encoding of protobuf. Raises ValueError if there is none."""
    value = 0
    for shift in range(0, 64, 7):
        [byte] = file.read(1)  # none at the end
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError


class _Own(threading.local):
    """The temporary folders of the conversion that this thread runs."""

    def __init__(self) -> None:
        self.workshops: set[Path] = set()


_own = _Own()


@contextmanager
def workshop(folder: Path) -> Iterator[Path]:
    """A temporary folder inside `folder`, which is removed afterwards. Raises FusioncError if it
    cannot be made.
    """
    path = folder / f"{_PREFIX}{secrets.token_hex(4)}"
    while os.path.lexists(path):
        path = folder / f"{_PREFIX}{secrets.token_hex(4)}"
    with ExitStack() as in_use:
        try:
            try:
                remove_abandoned(folder)
                _own.workshops.add(path)
                # until it is locked, another conversion may take it for an abandoned one
                while not path.exists():
                    path.mkdir(mode=0o700)
                    in_use.enter_context(locked(path, 1))
            except OSError as error:
                raise cannot_be_written(error, folder) from error
            yield path
        finally:
            _own.workshops.discard(path)
            try:
                _remove(path)
            except BaseException:  # a signal
                _remove(path)
                raise


def companion_name(workshop: Path) -> str:
    """The name of a file that belongs to a temporary folder and lies next to it."""
    return f"{workshop.name}.onnx"


def light_form(name: str) -> str:
    """The name of a file next to a model, for a form of it that exists for a moment."""
    return f"{name}.light.onnx"


def _remove(workshop: Path) -> None:
    for name in (companion_name(workshop), light_form(companion_name(workshop))):
        with suppress(OSError):
            workshop.with_name(name).unlink(missing_ok=True)
    shutil.rmtree(workshop, ignore_errors=True)


@contextmanager
def locked(folder: Path, seconds: float = 0) -> Iterator[bool]:
    """Keep other conversions away from a folder; return whether it is locked now. It waits for
    others for a while and then goes on: a script may hold the same lock to run conversions one by
    one, and some file systems lack locks.
    """
    if sys.platform == "win32":
        yield False
        return
    with ExitStack() as closing:
        is_locked = False
        deadline = monotonic() + seconds
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            closing.callback(os.close, descriptor)
            while not is_locked:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    is_locked = True
                except BlockingIOError:
                    if monotonic() >= deadline:
                        break
                    sleep(0.01)
        yield is_locked


def is_alone(workshop: Path) -> bool:
    """Whether no other conversion has a temporary folder next to this one, so that unused files
    belong to no conversion.
    """
    for other in set(_workshops(workshop.parent)) - {workshop, *_own.workshops}:
        with locked(other) as is_free:
            if not is_free and other.exists():
                return False
    return True


def _workshops(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if _WORKSHOP.fullmatch(path.name)]
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def remove_abandoned(folder: Path) -> None:
    """Remove temporary folders whose processes were killed."""
    if not hasattr(os, "getuid"):
        return
    with suppress(OSError):
        for path in _workshops(folder):
            with locked(path) as is_free:
                if is_free and path.stat().st_uid == os.getuid():
                    _remove(path)
