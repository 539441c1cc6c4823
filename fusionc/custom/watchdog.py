"""A time limit for users' code: an endless loop ends in an error, not in a hanging command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from fusionc.errors import FusioncError, Terminated

SECONDS = 60.0  # seconds for one run of a pass on a model, or for reading one file
_AGAIN = 1.0  # seconds until code that has caught the exception gets it again
_PATIENCE = 5  # times; then the process ends


class _Overdue(Terminated):
    """Not an Exception, so that `except Exception` in a user's loop does not catch it."""

    def __init__(self, place: str) -> None:
        super().__init__(1)
        self.place = place


@contextmanager
def watchdog(
    places: Mapping[str, str], tell: Callable[[str], None], hint: str = ""
) -> Iterator[Callable[[str], None]]:
    """Returns a function to call with the name of each pass before it runs: `tell`, which also sets
    the clock for the passes in `places`.

    `places` has the file and line of each of these passes. Signals reach only the main thread of a
    POSIX system; elsewhere nothing is limited.
    """
    if (
        not places
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield tell
        return
    running = ""
    alarms = 0

    def overdue(place: str) -> FusioncError:
        what = f"{running} has not come to an end in {SECONDS:g} seconds"
        advice = (
            hint or f'correct the pass, or switch it off: --optimization_switch "{running}:off"'
        )
        return FusioncError(what, where=place, hint=advice, code="E20007")

    def alarm(_number: int, frame: FrameType | None) -> None:
        nonlocal alarms
        alarms += 1
        place = _line_in(frame, places[running])
        if alarms > _PATIENCE:  # it catches everything: only this ends it
            print(overdue(place), file=sys.stderr, flush=True)
            os._exit(1)
        raise _Overdue(place)

    def begin(name: str) -> None:
        nonlocal running
        running = name
        signal.setitimer(signal.ITIMER_REAL, SECONDS if name in places else 0, _AGAIN)
        tell(name)

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        yield begin
    except _Overdue as error:
        raise overdue(error.place) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _line_in(frame: FrameType | None, place: str) -> str:
    """The innermost line that runs in the file of `place`, or `place` itself."""
    file, _, _ = place.rpartition(":")
    while frame is not None:
        if frame.f_code.co_filename == file:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return place
