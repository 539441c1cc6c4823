"""The places where files are written: a temporary folder next to the result, a lock on that folder,
and checks that the result can be written.

The temporary folder `.fusionc-…` is on the same file system as the result, so that files can be
moved to their final places by renaming. A process locks its folder while it lives. If a folder is
not locked, its process was killed, and the next conversion to the same place removes the folder.
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

# the wire types of protobuf that occur in a ModelProto
_NUMBER = 0
_BYTES = 2
_GRAPH = 7  # the number of the field `graph`
_PREFIX = ".fusionc-"
_WORKSHOP = re.compile(re.escape(_PREFIX) + "[0-9a-f]{8}")


def cannot_be_written(error: OSError, where: Path) -> FusioncError:
    """The error for a result that cannot be written. It is a UsageError if the folder is
    missing.
    """
    what = f"the result cannot be written: {error.strerror or error}"
    if isinstance(error, FileNotFoundError) and not where.exists():
        hint = f"make the folder (mkdir -p {shlex.quote(str(where))}), or give another folder"
        return UsageError(what, where=str(where), hint=hint, code="E13004")
    return FusioncError(
        what,
        where=str(where),
        hint=(
            "give --output (for fusionc bisect: --output_dir) a folder that exists, can be written "
            "and has free space"
        ),
        code="E13004",
    )


def require_place(output: Path) -> None:
    """Raise FusioncError if the result cannot be written to this path. Call this before the
    conversion, which may take long.
    """
    with workshop(output.parent):
        pass
    require_replaceable(output)
    if not _is_replaceable(output):
        what = "the result would replace a file that is not an ONNX model"
        raise FusioncError(
            what, where=str(output), hint="move it away, or give another --output", code="E13004"
        )


def require_replaceable(path: Path) -> None:
    """Raise FusioncError if the existing file belongs to another user, and only that user may
    replace it.
    """
    with suppress(FileNotFoundError):
        folder = os.stat(path.parent)
        present = os.lstat(path)
        is_sticky = hasattr(os, "geteuid") and folder.st_mode & stat.S_ISVTX
        if is_sticky and os.geteuid() not in (0, folder.st_uid, present.st_uid):
            what = (
                "the result cannot be written: in this folder a user may not replace files of "
                "other users"
            )
            raise FusioncError(what, where=str(path), hint="give another --output", code="E13004")


def _is_replaceable(path: Path) -> bool:
    """Whether a result may be written to the path: there is nothing, an empty file, a link or a
    model.
    """
    try:
        return (
            not path.is_file() or path.is_symlink() or path.stat().st_size == 0 or _is_model(path)
        )
    except (OSError, ValueError):
        return False


def _is_model(path: Path) -> bool:
    """Whether a file has the form of a ModelProto with a graph. The contents of its fields
    are skipped, because they may be large.
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
    """The next variable-length integer of protobuf. Raises ValueError at the end of the file."""
    value = 0
    for shift in range(0, 64, 7):
        [byte] = file.read(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError


class _ThreadState(threading.local):
    """The temporary folders of the conversion that the current thread runs."""

    def __init__(self) -> None:
        self.workshops: set[Path] = set()


_thread_state = _ThreadState()


@contextmanager
def workshop(folder: Path) -> Iterator[Path]:
    """A context manager for a temporary folder inside `folder`. Raises FusioncError if the
    temporary folder cannot be created.
    """
    path = folder / f"{_PREFIX}{secrets.token_hex(4)}"
    while os.path.lexists(path):
        path = folder / f"{_PREFIX}{secrets.token_hex(4)}"
    with ExitStack() as in_use:
        try:
            try:
                remove_abandoned(folder)
                _thread_state.workshops.add(path)
                # Until the folder is locked, another conversion may take it for abandoned, and
                # remove it. In this case, it is created again.
                while not path.exists():
                    path.mkdir(mode=0o700)
                    in_use.enter_context(locked(path, 1))
            except OSError as error:
                raise cannot_be_written(error, folder) from error
            yield path
        finally:
            _thread_state.workshops.discard(path)
            try:
                _remove(path)
            except BaseException:  # a signal interrupts the removal
                _remove(path)
                raise


def companion_name(workshop: Path) -> str:
    """The name of the temporary file that belongs to a temporary folder, but is next to it."""
    return f"{workshop.name}.onnx"


def light_form(name: str) -> str:
    """The name of a temporary file next to a model. The file is the model with external weights."""
    return f"{name}.light.onnx"


def _remove(workshop: Path) -> None:
    for name in (companion_name(workshop), light_form(companion_name(workshop))):
        with suppress(OSError):
            workshop.with_name(name).unlink(missing_ok=True)
    shutil.rmtree(workshop, ignore_errors=True)


@contextmanager
def locked(folder: Path, seconds: float = 0) -> Iterator[bool]:
    """A context manager that locks a folder against other conversions. Its value says whether the
    folder is locked. It waits at most `seconds` for another process that holds the lock, and then
    continues without the lock: a script may hold the same lock to run its conversions one by one.
    It also continues if the file system does not support locks.
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
    """Whether no other running conversion has a temporary folder next to this one. If so, all
    unused files there may be removed.
    """
    for other in set(_workshops(workshop.parent)) - {workshop, *_thread_state.workshops}:
        with locked(other) as is_free:
            if not is_free and other.exists():
                return False
    return True


def _workshops(folder: Path) -> list[Path]:
    paths = [path for path in folder.iterdir() if _WORKSHOP.fullmatch(path.name)]
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def remove_abandoned(folder: Path) -> None:
    """Remove temporary folders whose processes were killed."""
    if not hasattr(os, "getuid"):
        return
    with suppress(OSError):
        for path in _workshops(folder):
            with locked(path) as is_free:
                if is_free and path.stat().st_uid == os.getuid():
                    _remove(path)
