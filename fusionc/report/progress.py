"""A status line for slow steps: on stderr, only in a terminal, only after two seconds."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from fusionc.errors import printable

if TYPE_CHECKING:
    from rich.status import Status

_PATIENCE = 2.0  # seconds


class Progress:
    """Call it with a word on the current step. As a context manager it leaves nothing on the
    screen.
    """

    def __init__(self) -> None:
        self._message = ""
        self._status: Status | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __call__(self, message: str) -> None:
        with self._lock:
            self._message = message
            if self._status is not None:
                self._status.update(_text(message))

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._timer = threading.Timer(_PATIENCE, self._start)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _start(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._timer is not None:  # not left in the meantime
                self._status = Console(stderr=True).status(_text(self._message))
                self._status.start()


def _text(message: str) -> str:
    from rich.markup import escape

    return escape(printable(message))
