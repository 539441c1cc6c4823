"""The program of a converting process: it converts one model after another, until its input ends.

The output of the conversions goes to its standard error, which is a file.
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
    """Run it."""
    requests, answers = take_pipes()
    from fusionc.runtime.process import start

    start()  # another process imports onnxruntime, while this one imports the rest
    from fusionc.batch.convert_one import check, convert_one

    signal.signal(signal.SIGTERM, _terminate)  # an error, so that nothing half written is left
    asked: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, asked), daemon=True).start()
    while True:
        try:
            name, argument = asked.get()
        except (
            Terminated
        ):  # no file is half written, and Python would take a fifth of a second to end
            # these end the process with onnxruntime, and remove temporary folders
            atexit._run_exitfuncs()
            os._exit(128 + signal.SIGTERM)
        answer: dict[str, Any]
        try:
            answer = convert_one(argument) if name == CONVERT else {"notices": check(argument)}
        except FusioncError as error:
            answer = {"error": {"text": str(error), "exit_code": error.exit_code}}
        wire.send(answers, answer)


def _read(requests: int, asked: SimpleQueue[tuple[str, Any]]) -> None:
    """Pass on the requests; when the caller ends, they end, and this ends the process."""
    try:
        while True:
            asked.put(wire.receive(requests))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(GRACE)
        os._exit(128 + signal.SIGTERM)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise Terminated(128 + number)
