"""Limit the size of files that the process with onnxruntime may write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 64 << 20  # bytes; this limit stops a custom operator that prints without end


def limit_files() -> None:
    """Limit files to a small size, because the process normally writes only what it prints."""
    _set(SMALL)


@contextmanager
def unlimited_files() -> Iterator[None]:
    """A context manager without a limit, for writing a model of any size."""
    _set(None)
    try:
        yield
    finally:
        limit_files()


def _set(most: int | None) -> None:
    """Set the limit, if the system supports one. None means the largest allowed limit."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if most is None or (hard != resource.RLIM_INFINITY and hard < most):
        most = hard
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
