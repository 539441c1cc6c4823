"""Paths that the user gives."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from fusionc.errors import UsageError, shown

_NO_PATH = {
    errno.ELOOP: "is a symbolic link that leads back to itself",
    errno.ENAMETOOLONG: "has a name that is too long",
}

# Streams that can be written into.
PIPE = "pipe"
DEVICE = "device"
_STREAMS = {
    stat.S_IFIFO: PIPE,
    stat.S_IFCHR: DEVICE,
    stat.S_IFBLK: "block device",
    stat.S_IFSOCK: "socket",
}


def path_of(given: object, name: str, hint: str) -> Path:
    """The path that an argument of this name means. Raises UsageError E10001, with the hint, if it
    is not a path.
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    raise UsageError(f"{name} is {shown(given)}, not a path", hint=hint, code="E10001")


def require_path(path: Path, what: str) -> None:
    """Raise UsageError E10001 if no file can lie at a path, such as one that is not UTF-8, which
    onnx and onnxruntime cannot open. `what` is its role in the conversion.
    """
    problem = _problem(path)
    if problem:
        hint = "give another path; a link or another name for the file will do"
        raise UsageError(f"the {what} {problem}", where=str(path), hint=hint, code="E10001")


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist."""
    return os.path.realpath(path) == os.path.realpath(other) or (
        path.exists() and other.exists() and path.samefile(other)
    )


def stream_at(path: Path) -> str:
    """The kind of a path that leads to a pipe, a device or a socket; "" if it leads to a file or a
    folder.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return ""
    return _STREAMS.get(kind, "")


def require_no_stream(path: Path) -> None:
    """Raise FileExistsError if a path leads neither to a file nor to a folder."""
    if what := stream_at(path):
        raise FileExistsError(errno.EEXIST, f"there is a {what}", str(path))


def require_file_place(path: Path, option: str) -> None:
    """Raise UsageError E10001 if `option` names a place where no file can be put by renaming: a
    pipe, a device, or a name that the system gives to open files, such as /dev/stdout.
    """
    system = Path(os.path.abspath(path)).parts[1:]
    is_open = system[:1] == ("proc",) or (
        system[:1] == ("dev",) and (len(system) == 2 or system[1] == "fd")
    )
    if what := stream_at(path) or (
        "file that a program has opened" if is_open and path.is_file() else ""
    ):
        hint = f"give the name of a file with {option}; another program can send it on from there"
        raise UsageError(f"{option} names a {what}", where=str(path), hint=hint, code="E10001")


def require_unread(written: Path, option: str, read: Mapping[Path, str]) -> None:
    """Raise UsageError if the file that `option` names is one that the command reads; `read` says
    what each of these is.
    """
    for file, what in read.items():
        if is_same(written, file):
            problem = f"{option} names {what}, which is read and never written over"
            raise UsageError(
                problem, where=str(written), hint=f"give another name with {option}", code="E10001"
            )


def _problem(path: Path) -> str | None:
    try:
        os.path.abspath(path).encode()
        path.stat()
    except UnicodeEncodeError:
        return "lies at a path that is not UTF-8"
    except ValueError:
        return "has a NUL in its name"
    except OSError as error:
        return _NO_PATH.get(error.errno or 0)
    return None
