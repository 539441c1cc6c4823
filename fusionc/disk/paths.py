"""Checks of the paths that the user gives."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from fusionc.errors import UsageError, shown

_ADDRESS = re.compile(r"(https?|ftp|s3|gs|hf|file):/+(?=.)", re.IGNORECASE)
_PATH_PROBLEMS = {
    errno.ELOOP: "is a symbolic link that leads back to itself",
    errno.ENAMETOOLONG: "has a name that is too long",
}

# the kinds of streams into which a program can write
PIPE = "pipe"
DEVICE = "device"
_STREAMS = {
    stat.S_IFIFO: PIPE,
    stat.S_IFCHR: DEVICE,
    stat.S_IFBLK: "block device",
    stat.S_IFSOCK: "socket",
}


def path_of(value: object, name: str, hint: str) -> Path:
    """The value of an argument as a Path. If it is not a path, raises UsageError E10001 with the
    hint.
    """
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise UsageError(f"{name} is {shown(value)}, not a path", hint=hint, code="E10001")


def require_path(path: Path, what: str) -> None:
    """Raise UsageError E10001 if the path is not usable. For example, onnx and onnxruntime cannot
    open a path that is not UTF-8. `what` names the file in messages, such as "model".
    """
    problem = _problem(path)
    if problem:
        hint = "give another path, or rename the file"
        raise UsageError(f"the {what} {problem}", where=str(path), hint=hint, code="E10001")


def address_error(path: Path) -> UsageError | None:
    """The error for a path that is a network address, such as https://… `None` for other paths."""
    if not _ADDRESS.match(str(path)):
        return None
    address = _ADDRESS.sub(r"\1://", str(path), count=1)  # Path reduces the two slashes to one
    hint = f"download it first: curl -L -o model.onnx {address}"
    return UsageError(
        "the model is an address, not a file", where=address, hint=hint, code="E10410"
    )


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same file. The file need not exist."""
    return os.path.realpath(path) == os.path.realpath(other) or (
        path.exists() and other.exists() and path.samefile(other)
    )


def stream_at(path: Path) -> str:
    """The kind of stream at a path: a pipe, a device or a socket. "" for files and folders."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return ""
    return _STREAMS.get(kind, "")


def opened_file(path: Path) -> str:
    """A description of the file if a path such as /dev/stdin leads to a file that a program has
    already opened. "" for other paths. In another program, the same path leads to another file.
    """
    system = Path(os.path.abspath(path)).parts[1:]
    is_open = system[:1] == ("proc",) or (
        system[:1] == ("dev",) and (len(system) == 2 or system[1] == "fd")
    )
    return "file that a program has opened" if is_open and path.is_file() else ""


def require_no_stream(path: Path) -> None:
    """Raise FileExistsError if a path leads to a stream."""
    if what := stream_at(path):
        raise FileExistsError(errno.EEXIST, f"the path is a {what}", str(path))


def require_file_place(path: Path, option: str) -> None:
    """Raise UsageError E10001 if no file can be written at the path that `option` names, because
    files are written under another name and then renamed. Such paths are pipes, devices, and the
    system's names of open files, such as /dev/stdout.
    """
    if what := stream_at(path) or opened_file(path):
        hint = f"give {option} the name of a file; another program can then read this file"
        raise UsageError(f"{option} names a {what}", where=str(path), hint=hint, code="E10001")


def require_unread(written: Path, option: str, read: Mapping[Path, str]) -> None:
    """Raise UsageError if the command would overwrite a file that it reads. `written` is the path
    that `option` names. `read` maps each file that the command reads to a description.
    """
    for file, what in read.items():
        if is_same(written, file):
            problem = f"{option} names {what}; files that are read are never written over"
            raise UsageError(
                problem, where=str(written), hint=f"give another name with {option}", code="E10001"
            )


def _problem(path: Path) -> str | None:
    try:
        os.path.abspath(path).encode()
        path.stat()
    except UnicodeEncodeError:
        return "has a path that is not UTF-8"
    except ValueError:
        return "has a NUL character in its name"
    except OSError as error:
        return _PATH_PROBLEMS.get(error.errno or 0)
    return None
