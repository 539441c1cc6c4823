"""How large a file the process that runs onnxruntime may write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 64 << 20  # bytes; what somebody prints for ever ends there


def limit_files() -> None:
    """Nothing is written but what is printed."""
    _set(SMALL)


@contextmanager
def unlimited_files() -> Iterator[None]:
    """A model is written here, of any size."""
    _set(None)
    try:
        yield
    finally:
        limit_files()


def _set(most: int | None) -> None:
    """Set the limit, if the system has one."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if most is None or (hard != resource.RLIM_INFINITY and hard < most):
        most = hard
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
