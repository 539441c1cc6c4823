"""Signals: how they end a command, and when they are delayed."""

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
def raise_on_signals() -> Iterator[None]:
    """Turn signals into an error that ends the command, so that context managers clean up
    unfinished work.

    A signal that is ignored stays ignored, for example Ctrl-C in the background or SIGHUP under
    nohup.
    """
    with _install_handlers(
        {n: handler for n, handler in _ENDING.items() if signal.getsignal(n) != signal.SIG_IGN}
    ):
        yield


@contextmanager
def hold_signals() -> Iterator[None]:
    """Delay the signals that end a command until the context is left.

    Imports need this, because an error during the import of onnx's extension module crashes the
    process.
    """
    caught: list[int] = []
    try:
        with _install_handlers(
            {
                n: lambda number, _: caught.append(number)
                for n in _ENDING
                if callable(signal.getsignal(n))
            }
        ):
            yield
    finally:
        for number in caught[:1]:
            signal.raise_signal(number)


@contextmanager
def _install_handlers(handlers: dict[int, _Handler]) -> Iterator[None]:
    """Install these handlers. Does nothing outside the main thread, because only the main thread
    may install handlers.
    """
    is_main = threading.current_thread() is threading.main_thread()
    previous = {
        number: signal.signal(number, handler) for number, handler in handlers.items() if is_main
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
