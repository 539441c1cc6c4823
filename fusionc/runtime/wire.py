"""Messages between two processes: pickles with a length before them. Large arrays are sent as raw
bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import struct
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

_COUNT = struct.Struct("<I")
_PIPE_SIZE = 1 << 20  # bytes; the largest size that Linux allows users
_LARGE = 16 * 1024  # bytes; smaller buffers are copied into the pickle
_MAX_WAIT = 2**31 - 1  # milliseconds; the longest timeout of poll


class Raw(NamedTuple):
    """A tensor with an element type that numpy lacks."""

    elem_type: int | str  # ONNX's number or onnxruntime's name of the type
    shape: tuple[int, ...]
    data: Any  # the bytes of the elements


def widen(*descriptors: int) -> None:
    """Enlarge the buffers of pipes. Whenever a pipe is full or empty, the thread that uses it has
    to wait, and then for the other threads of its program until it may run again. Seconds for
    sending 48 MiB there and back, with four other busy threads: 31 through pipes of 64 KiB, 1.7
    through enlarged pipes.
    """
    for descriptor in descriptors:
        # fails on systems other than Linux, and if this user has too many pipes
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


Loads = Callable[[bytes, Sequence[Any]], Any]


def send(descriptor: int, message: Any, deadline: float | None = None) -> None:
    """Send a message. Raises TimeoutError if the receiver does not read it before `deadline`
    (time.monotonic).
    """
    buffers: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes >= _LARGE:
            buffers.append(view)
        return view.nbytes < _LARGE

    body = pickle.dumps(message, protocol=5, buffer_callback=stays_inside)
    lengths = [len(body), *(buffer.nbytes for buffer in buffers)]
    head = _COUNT.pack(len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)
    # A small message is one write, because every write may wake the receiver.
    parts = [head + body] if len(body) < _LARGE else [head, body]
    for rest in (*(memoryview(part) for part in parts), *buffers):
        while rest:
            _wait(descriptor, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(descriptor, rest) :]
            # poll reported space, but not enough for this write: wait again
            except BlockingIOError:
                continue


def receive(descriptor: int, deadline: float | None = None, loads: Loads | None = None) -> Any:
    """Receive the next message. Raises EOFError if the sender has ended, and TimeoutError if no
    message arrives before `deadline`.

    `loads` unpickles the message from the pickle and its buffers; the default is `pickle.loads`.
    """
    (count,) = _COUNT.unpack(_read(descriptor, _COUNT.size, deadline))
    lengths = struct.unpack(f"<{count}Q", _read(descriptor, 8 * count, deadline))
    body, *buffers = (_read(descriptor, length, deadline) for length in lengths)
    return loads(body, buffers) if loads is not None else pickle.loads(body, buffers=buffers)


def _read(descriptor: int, length: int, deadline: float | None) -> Any:
    # imported here because it would delay `fusionc --help` and the start of the child process
    import numpy as np

    buffer = np.empty(length, np.uint8)  # a bytearray would first be filled with zeros
    rest = buffer.data
    while rest:
        _wait(descriptor, select.POLLIN, deadline)
        count = os.readv(descriptor, [rest])
        if not count:
            raise EOFError
        rest = rest[count:]
    return buffer


def _wait(descriptor: int, event: int, deadline: float | None) -> None:
    milliseconds = None if deadline is None else 1000 * (deadline - monotonic())
    if milliseconds is not None and milliseconds <= 0:
        raise TimeoutError
    ready = select.poll()
    ready.register(descriptor, event)
    if not ready.poll(milliseconds if milliseconds is None else min(milliseconds, _MAX_WAIT)):
        raise TimeoutError
