"""A time limit for users' code, so that an endless loop ends in an error."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from fusionc.errors import FusioncError, Terminated

SECONDS = 60.0  # time for one run of a pass on a model, or for reading one file
_REPEAT_SECONDS = 1.0  # code that catches the exception gets it again after this time
_MAX_ALARMS = 5  # number of exceptions before the process is ended


class _Overdue(Terminated):
    """The time is over. This is not an Exception, so that a user's `except Exception` does not
    catch it.
    """

    def __init__(self, place: str) -> None:
        super().__init__(1)
        self.place = place


@contextmanager
def watchdog(
    places: Mapping[str, str], tell: Callable[[str], None], hint: str = ""
) -> Iterator[Callable[[str], None]]:
    """A context manager that gives a function. Call the function with the name of each pass before
    the pass runs: it calls `tell` with the name, and starts the clock if the pass is in `places`.

    `places` maps the names of limited passes to their file and line. Signals reach only the main
    thread of a POSIX system; other threads and systems have no limit.
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
        message = f"{running} did not end within {SECONDS:g} seconds"
        advice = (
            hint or f'correct the pass, or switch it off: --optimization_switch "{running}:off"'
        )
        return FusioncError(message, where=place, hint=advice, code="E20007")

    def alarm(_number: int, frame: FrameType | None) -> None:
        nonlocal alarms
        alarms += 1
        place = _line_in(frame, places[running])
        if alarms > _MAX_ALARMS:  # the code catches everything, so the process must end
            print(overdue(place), file=sys.stderr, flush=True)
            os._exit(1)
        raise _Overdue(place)

    def begin(name: str) -> None:
        nonlocal running
        running = name
        signal.setitimer(signal.ITIMER_REAL, SECONDS if name in places else 0, _REPEAT_SECONDS)
        tell(name)

    previous_handler = signal.signal(signal.SIGALRM, alarm)
    try:
        yield begin
    except _Overdue as error:
        raise overdue(error.place) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)


def _line_in(frame: FrameType | None, place: str) -> str:
    """The innermost running line in the file of `place`; `place` itself if there is none."""
    file, _, _ = place.rpartition(":")
    while frame is not None:
        if frame.f_code.co_filename == file:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return place
