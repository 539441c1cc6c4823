"""The entry point of `python -m fusionc` and of the command `fusionc`. It prepares the process
before large modules are imported.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from fusionc.runtime.blas import ONE_THREAD

# Garbage is collected after this many new objects. Frequent collections would free little: most
# objects of a conversion stay alive, and so do the 85,000 objects of the modules.
_COLLECTION_THRESHOLD = 250_000


def run() -> None:
    """Run the command. Ctrl-C ends it without a traceback, even during imports and at exit."""
    # a signal that is ignored, as in a background process, must stay ignored
    handles_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupt:
        signal.signal(signal.SIGINT, _interrupt)
    gc.set_threshold(_COLLECTION_THRESHOLD, 20, 20)
    os.environ.setdefault(*ONE_THREAD)
    _open_missing_streams()
    from fusionc.cli import main

    code: Any = 0
    try:
        main(prog_name="fusionc")
    except SystemExit as exit_request:
        code = exit_request.code
    finally:
        _flush()
        if handles_interrupt:
            signal.signal(signal.SIGINT, _interrupt)
    _end(code)


def _end(code: Any) -> None:
    """End the process without freeing every object. Freeing takes a tenth of the time of a small
    conversion.
    """
    if not isinstance(code, int | None):
        raise SystemExit(code)
    atexit._run_exitfuncs()  # one of them ends the child process that runs onnxruntime
    _flush()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code or 0)


def _interrupt(_number: int, _frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"fusionc: interrupted\n")
    os._exit(130)


def _open_missing_streams() -> None:
    """Open each closed standard stream (`fusionc … >&-`) on the null device. Otherwise the next
    opened file, for example a model, would get the stream's file descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
        if getattr(sys, name) is None:
            setattr(
                sys,
                name,
                os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False),
            )


def _flush() -> None:
    """Flush the standard output. If that fails, the failure has already been reported. The rest of
    the output is then dropped, so that Python does not report the failure again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    run()
