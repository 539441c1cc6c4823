"""The program of the process that runs onnxruntime. It answers one request after the other until
its caller ends.

The program is started as a file, with the caller's sys.path as arguments. It therefore finds the
same onnxruntime as the caller, and does not import modules from the current folder by accident.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from typing import Any

READY = "ready"
# the first part of each answer
DONE = "done"
FAILED = "failed"
HUNGRY = "hungry"
BROKEN = "broken"
# parts of messages about a lack of memory
_MEMORY_ERRORS = ("bad_alloc", "bad allocation", "Failed to allocate memory", "Unable to allocate")


def _main(requests: int, answers: int) -> None:
    from fusionc.errors import said
    from fusionc.runtime import wire

    try:
        from fusionc.runtime.sessions import Sessions

        sessions = Sessions()
    except Exception as error:  # onnxruntime, or a package that it needs, cannot be imported
        wire.send(answers, (BROKEN, said(error)))
        return
    wire.send(answers, (READY, None))
    while True:
        name, arguments = wire.receive(requests)
        answer: tuple[str, Any]
        try:
            answer = DONE, getattr(sessions, name)(*arguments)
        except MemoryError as error:
            answer = HUNGRY, str(error)
        except Exception as error:  # onnxruntime's exceptions have no common base class
            answer = (
                HUNGRY if any(word in str(error) for word in _MEMORY_ERRORS) else FAILED,
                str(error),
            )
        del arguments
        wire.send(answers, answer)
        del answer


def _end_with_the_caller(requests: int) -> None:
    """End this process when the caller ends. The other end of the pipe `requests` is closed then,
    even if the caller is killed.
    """
    closed = select.poll()
    closed.register(requests, 0)
    closed.poll()
    os._exit(0)


def _start() -> None:
    standard = [path for path in sys.path if path]
    sys.path[:] = [*standard, *(path for path in sys.argv[1:] if path not in standard)]
    from fusionc.runtime.child_program import take_pipes
    from fusionc.runtime.file_limit import limit_files

    requests, answers = take_pipes()
    limit_files()
    threading.Thread(target=_end_with_the_caller, args=(requests,), daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        _main(requests, answers)
    os._exit(0)  # nothing to clean up, and no thread to wait for


if __name__ == "__main__":
    _start()
