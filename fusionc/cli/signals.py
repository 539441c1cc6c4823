"""Signals: how they end a command, and what they must wait for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fusionc.errors import Terminated

_Handler = Callable[[int, FrameType | None], object]


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(128 + number)


_ENDING: dict[int, _Handler] = {
    getattr(signal, name): handler
    for name, handler in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", _terminate),
        ("SIGHUP", _terminate),
    )
    if hasattr(signal, name)
}


@contextmanager
def ended_by_errors() -> Iterator[None]:
    """Let signals end the command by an error, so that what is half done is cleaned up.

    One that is ignored stays so: Ctrl-C in the background, SIGHUP behind nohup.
    """
    with _handled(
        {n: handler for n, handler in _ENDING.items() if signal.getsignal(n) != signal.SIG_IGN}
    ):
        yield


@contextmanager
def held_back() -> Iterator[None]:
    """Let signals that end the command wait until this is done.

    For imports: an error that comes while the extension module of onnx is imported crashes the
    process.
    """
    came: list[int] = []
    try:
        with _handled(
            {
                n: lambda number, _: came.append(number)
                for n in _ENDING
                if callable(signal.getsignal(n))
            }
        ):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def _handled(handlers: dict[int, _Handler]) -> Iterator[None]:
    """Handle signals in these ways; only the main thread can."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, handler) for number, handler in handlers.items() if is_main
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
