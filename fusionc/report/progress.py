"""A status line on stderr. It appears only in a terminal, and only if a command takes longer than
two seconds.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from fusionc.errors import printable

if TYPE_CHECKING:
    from rich.status import Status

_DELAY = 2.0  # seconds


class Progress:
    """A context manager that shows the status line. Call it with a few words about the current
    step. When the context is left, the line disappears. `is_quiet` means that it never appears.
    """

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
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
        if self._is_shown:
            self._timer = threading.Timer(_DELAY, self._start)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
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
            if self._timer is not None:  # the context has not been left in the meantime
                self._status = Console(stderr=True).status(_text(self._message))
                self._status.start()


def _text(message: str) -> str:
    from rich.markup import escape

    return escape(printable(message))
