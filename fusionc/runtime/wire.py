"""Messages between the two processes: pickles with a length before them, large arrays as they lie
in memory.
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
_PIPE = 1 << 20  # bytes, the most that Linux gives a user
_LARGE = 16 * 1024  # bytes; smaller buffers are copied into the pickle
_LONGEST = 2**31 - 1  # milliseconds that a system waits


class Raw(NamedTuple):
    """A tensor of elements that numpy lacks: their type, by ONNX's number or onnxruntime's name,
    and their bytes.
    """

    elem_type: int | str
    shape: tuple[int, ...]
    data: Any


def widen(*descriptors: int) -> None:
    """Let more fit into pipes. Each time that one is full or empty, a thread waits its turn among
    the others of its program: with four others at work, 48 MiB there and back took 31 s through
    pipes of 64 KiB, 1.7 s through these.
    """
    for descriptor in descriptors:
        # not on Linux, or if this user has too many pipes
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE)


Loads = Callable[[bytes, Sequence[Any]], Any]


def send(descriptor: int, message: Any, deadline: float | None = None) -> None:
    """Write a message. Raises TimeoutError if the other side does not read it before `deadline`
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
    for rest in (memoryview(head), memoryview(body), *buffers):
        while rest:
            _wait(descriptor, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:  # less room than poll counts as some
                continue


def receive(descriptor: int, deadline: float | None = None, loads: Loads | None = None) -> Any:
    """The next message. Raises EOFError if the other side is gone, TimeoutError at `deadline`.

    `loads` makes it from the pickle and its buffers, by default pickle itself.
    """
    (count,) = _COUNT.unpack(_read(descriptor, _COUNT.size, deadline))
    lengths = struct.unpack(f"<{count}Q", _read(descriptor, 8 * count, deadline))
    body, *buffers = (_read(descriptor, length, deadline) for length in lengths)
    return loads(body, buffers) if loads is not None else pickle.loads(body, buffers=buffers)


def _read(descriptor: int, length: int, deadline: float | None) -> Any:
    import numpy as np  # neither `fusionc --help` nor the start of the other process waits for it

    buffer = np.empty(length, np.uint8)  # unlike a bytearray, not filled with zeros first
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
    if not ready.poll(milliseconds if milliseconds is None else min(milliseconds, _LONGEST)):
        raise TimeoutError
