"""`python -m fusionc` and the command `fusionc`: prepare the process before anything large is
imported.
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

# So many new objects start a collection of garbage: most objects of a conversion stay, as do the
# 85,000 of the modules.
_OBJECTS = 250_000


def run() -> None:
    """The command. Ctrl-C ends it without a traceback even while modules are imported, and while
    Python ends.
    """
    # nohup ignores the signal
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, _interrupt)
    gc.set_threshold(_OBJECTS, 20, 20)
    os.environ.setdefault(*ONE_THREAD)
    _open_missing_streams()
    from fusionc.cli import main

    code: Any = 0
    try:
        main(prog_name="fusionc")
    except SystemExit as ending:
        code = ending.code
    finally:
        _flush()
        if is_heard:
            signal.signal(signal.SIGINT, _interrupt)
    _end(code)


def _end(code: Any) -> None:
    """End now: to free every object first takes a tenth of the time of a small conversion."""
    if not isinstance(code, int | None):
        raise SystemExit(code)
    atexit._run_exitfuncs()  # they end the process with onnxruntime
    _flush()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code or 0)


def _interrupt(_number: int, _frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"fusionc: interrupted\n")
    os._exit(130)


def _open_missing_streams() -> None:
    """Open closed streams (`fusionc … >&-`) on the null device: otherwise the next file that is
    opened, a model perhaps, would get such a number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(
                sys,
                name,
                os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False),
            )


def _flush() -> None:
    """Write what is left. A failure was reported before: drop the rest, so that Python does not
    report it again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    run()
