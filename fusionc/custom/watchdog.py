"""A limit on the time of users' passes: one that loops for ever ends in an error, not in a hanging command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fusionc.errors import FusioncError

SECONDS = 60.0  # for one run of a pass over a model


@contextmanager
def watchdog(names: frozenset[str], tell: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """What to call with the name of each pass before it runs: `tell`, with the clock set for the passes in `names`.

    Signals reach the main thread of a POSIX system only; elsewhere nothing is limited.
    """
    if not names or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield tell
        return
    running = [""]

    def alarm(_number: int, frame: FrameType | None) -> None:
        place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise FusioncError(
            f"{running[0]} has not come to an end in {SECONDS:g} seconds",
            where=place,
            hint=f'correct the pass, or switch it off: --optimization_switch "{running[0]}:off"',
            code="E20007",
        )

    def begin(name: str) -> None:
        running[0] = name
        signal.setitimer(signal.ITIMER_REAL, SECONDS if name in names else 0)
        tell(name)

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
