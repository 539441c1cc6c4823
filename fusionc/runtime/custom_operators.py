"""The user's libraries of custom operators (--custom_op_library). Inside `custom_operators`, every
onnxruntime session that the same thread creates gets these libraries.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fusionc.errors import UsageError
from fusionc.runtime.process import request
from fusionc.runtime.run_errors import RunError


class _State(threading.local):
    libraries: tuple[str, ...] = ()


_state = _State()


@contextmanager
def custom_operators(libraries: Sequence[str | Path]) -> Iterator[None]:
    """A context manager that registers these libraries in all sessions created inside it."""
    before = _state.libraries
    _state.libraries = tuple(map(os.path.abspath, libraries))
    try:
        yield
    finally:
        _state.libraries = before


def libraries_in_use() -> tuple[str, ...]:
    """The paths of the libraries that sessions of this thread get now."""
    return _state.libraries


def require_loadable(libraries: Sequence[Path]) -> None:
    """Raise UsageError if a library does not exist or if onnxruntime cannot load it."""
    for library in libraries:
        if not library.is_file():
            problem = "is not a file" if library.exists() else "does not exist"
            hint = "give the path of the shared library with the model's custom operators"
            raise UsageError(
                f"the library of custom operators {problem}",
                where=str(library),
                hint=hint,
                code="E10410",
            )
        try:
            request("load_library", os.path.abspath(library))
        except RunError as error:
            raise UsageError(
                f"onnxruntime cannot load the library of custom operators: {error}",
                where=str(library),
                hint=(
                    "build the library for this machine and for the installed onnxruntime; it has "
                    "to export RegisterCustomOps"
                ),
                code="E10001",
            ) from error
