"""The program of a converting process: it converts one model after another until its input ends.

The output of the conversions goes to the standard error of the process, which is redirected to a
file.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from queue import SimpleQueue
from time import sleep
from types import FrameType
from typing import Any

from fusionc.errors import FusioncError, Terminated
from fusionc.runtime import wire
from fusionc.runtime.child_program import take_pipes

CHECK = "check"
CONVERT = "convert"
GRACE = 5.0  # seconds to remove half-written files after the request to end


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = take_pipes()
    from fusionc.runtime.process import start

    start()  # starts a child process that imports onnxruntime while this process imports the rest
    from fusionc.batch.convert_one import check, convert_one

    signal.signal(signal.SIGTERM, _terminate)  # raises, so half-written files are removed
    queue: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, queue), daemon=True).start()
    while True:
        try:
            name, argument = queue.get()
        except Terminated:  # raised here, the process is idle, and no file is half written
            # These functions end the child process and remove temporary folders. A normal exit of
            # Python would take 0.2 s longer.
            atexit._run_exitfuncs()
            os._exit(128 + signal.SIGTERM)
        answer: dict[str, Any]
        try:
            answer = convert_one(argument) if name == CONVERT else {"notices": check(argument)}
        except FusioncError as error:
            answer = {"error": {"text": str(error), "exit_code": error.exit_code}}
        wire.send(answers, answer)


def _read(requests: int, queue: SimpleQueue[tuple[str, Any]]) -> None:
    """Pass requests on to the main thread. When the caller closes the requests or ends, end the
    process: first with SIGTERM, and after a few seconds in any case.
    """
    try:
        while True:
            queue.put(wire.receive(requests))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(GRACE)
        os._exit(128 + signal.SIGTERM)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
    raise Terminated(128 + number)
