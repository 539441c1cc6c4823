"""The cache of the libraries that this user's fusionc has compiled. fusionc loads other libraries
only with the user's permission.

The folder and every library in it must belong to the user, and others must not be able to write
them; otherwise they are not used. A file is named KEY.DIGEST.so (or .o): KEY identifies the
sources, and DIGEST the content. If a full disk or a crash damages a file, its content no longer
fits its name, and fusionc builds it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep, time
from typing import IO

from fusionc.disk.publish import digest

_MOST = 1000  # files in the cache, of about 100 KB each
_LONGEST_WAIT = 60.0  # seconds; one text took at most 30 to compile
_PAUSE = 0.02  # seconds between two attempts to lock
_ABANDONED = 24 * 3600.0  # seconds; what a conversion that was killed leaves is removed after this


def cache_folder() -> Path:
    """The folder of this user's kernels. If it cannot be used, a folder for this process alone."""
    return Path(_own_folder().name) if reason_against_keeping() else _usual_folder()


def reason_against_keeping() -> str:
    """The reason why kernels are not kept in the user's cache folder; empty if they are kept."""
    try:
        folder = _usual_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            if not _is_own(path.lstat()) or not path.is_dir():
                return (
                    f"the cache of kernels {folder} is not used, because {path} belongs to another "
                    "user"
                )
            if hasattr(os, "getuid") and path.stat().st_mode & 0o077:
                path.chmod(0o700)
        return (
            "" if os.access(folder, os.W_OK) else f"the cache of kernels {folder} cannot be written"
        )
    except OSError as error:
        return f"the cache of kernels cannot be used: {error.strerror}"
    except RuntimeError:
        return "the cache of kernels cannot be used: the user has no home"


def is_usable(library: Path) -> bool:
    """Whether a file of the cache belongs to the user and only the user can have written it."""
    try:
        status = library.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and _is_own(status) and not status.st_mode & 0o022


def intact(keys: Collection[str], suffix: str) -> dict[str, Path]:
    """The intact files of the cache with these keys. Damaged files are removed."""
    found = dict[str, Path]()
    for file in cache_folder().glob(f"*{suffix}"):
        key = file.name.partition(".")[0]
        if key in keys and _is_intact(file):
            keep(file)
            found[key] = file
    return found


def put(made: Path, key: str) -> Path:
    """Move a file into the cache in one step. Several processes may do this at once."""
    made.chmod(0o700)  # whatever the umask is: `is_usable` rejects a file that others can write
    return made.replace(cache_folder() / f"{key}.{digest(made)}{made.suffix}")


@contextmanager
def turn(kind: str, key: str) -> Iterator[None]:
    """A context manager that waits until no other process or thread is compiling what has this key.

    The lock is a file, which the process that holds it removes when it is done. Two processes may
    still compile the same at once: if the first one takes too long, if the file system has no
    locks, or if a process comes just when another one removes the lock. This only costs time.
    """
    path = cache_folder() / f"{kind}-{key}.lock"
    with path.open("a") as lock:
        is_held = _has_locked(lock)
        try:
            yield
        finally:
            if is_held:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # a fork of this process may still have the file open
                fcntl.flock(lock, fcntl.LOCK_UN)


def _has_locked(lock: IO[str]) -> bool:
    """Wait for a lock, but not for a process that is stopped or hangs. Return whether this process
    holds the lock.
    """
    end = monotonic() + _LONGEST_WAIT
    while monotonic() < end:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_PAUSE)
        except OSError:  # the file system has no locks
            return False
        else:
            return True
    return False


def known(library: Path) -> Path | None:
    """The file in the cache that has the content of `library`. `None` if this user's fusionc did
    not compile that library.
    """
    with suppress(OSError):
        for kept in cache_folder().glob(f"*.{digest(library)}.so"):
            if _is_intact(kept):
                keep(kept)
                return kept
    return None


def _is_intact(file: Path) -> bool:
    """Whether a file of the cache is usable and has the content that its name says. If not, remove
    the file.
    """
    with suppress(OSError):
        if is_usable(file) and file.name.split(".")[1] == digest(file):
            return True
        file.unlink(missing_ok=True)
    return False


def snapshot(library: Path) -> Path:
    """A copy of a library for this process alone. It is not added to the cache."""
    return Path(
        shutil.copyfile(library, Path(tempfile.mkdtemp(dir=_own_folder().name), library.name))
    )


def keep(library: Path) -> None:
    """Mark a library as used now. The cache removes the files that were unused for longest."""
    with suppress(OSError):
        library.touch()


def forget_oldest(folder: Path) -> None:
    """If the cache has too many files, remove the libraries and objects that were unused for
    longest. Also remove the unfinished files of conversions that were killed.

    Several processes may do this at once.
    """
    for leftover in (*folder.glob("build-*"), *folder.glob("*.lock")):
        with suppress(FileNotFoundError):
            if time() - leftover.stat().st_mtime > _ABANDONED:
                _remove(leftover)
    times = dict[Path, float]()
    for library in (*folder.glob("*.so"), *folder.glob("*.o")):
        with suppress(FileNotFoundError):
            times[library] = library.stat().st_mtime
    for library in sorted(times, key=times.__getitem__)[:-_MOST]:
        library.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _usual_folder() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "fusionc" / "kernels"


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fusionc-kernels-")  # removed with the process
