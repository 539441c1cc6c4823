"""Check the paths that the user gives."""

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
    """The value of an argument as a Path. Raises UsageError E10001 with the hint if it is not a
    path.
    """
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise UsageError(f"{name} is {shown(value)}, not a path", hint=hint, code="E10001")


def require_path(path: Path, what: str) -> None:
    """Raise UsageError E10001 if the path is not usable. For example, onnx and onnxruntime cannot
    open a path that is not UTF-8. `what` is the role of the path in messages.
    """
    problem = _problem(path)
    if problem:
        hint = "give another path, or rename the file"
        raise UsageError(f"the {what} {problem}", where=str(path), hint=hint, code="E10001")


def address_error(path: Path) -> UsageError | None:
    """The error for a path that is the address of a file in a network. None for other paths."""
    if not _ADDRESS.match(str(path)):
        return None
    address = _ADDRESS.sub(r"\1://", str(path), count=1)  # Path drops one of two slashes
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
    """What a path such as /dev/stdin is if it leads to a file that a program has opened. "" for
    other paths. Another program sees another file at this path.
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
    """Raise UsageError E10001 if a file cannot be renamed to the path that `option` names: a pipe,
    a device, or a name of the system for an open file, such as /dev/stdout.
    """
    if what := stream_at(path) or opened_file(path):
        hint = f"give the name of a file with {option}; another program can read that file"
        raise UsageError(f"{option} names a {what}", where=str(path), hint=hint, code="E10001")


def require_unread(written: Path, option: str, read: Mapping[Path, str]) -> None:
    """Raise UsageError if the command would overwrite a file that it reads. `written` is the path
    that `option` names. `read` has the files that the command reads, with a description of each.
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
        return "has a path that is not UTF-8"
    except ValueError:
        return "has a NUL character in its name"
    except OSError as error:
        return _PATH_PROBLEMS.get(error.errno or 0)
    return None
