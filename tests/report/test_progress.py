from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from fusionc.report import progress
from fusionc.report.progress import Progress


class Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "patience", "shown"), [(True, 0.2, True), (True, 60.0, False), (False, 0.2, False)]
)
def test_only_what_takes_long_in_a_terminal_is_shown(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, patience: float, shown: bool
) -> None:
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_DELAY", patience)
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as report:
        assert (
            any(isinstance(thread, threading.Timer) for thread in threading.enumerate()) == terminal
        )
        report("loading [x]")
        deadline = time.monotonic() + (10 if shown else 0.5)
        while "loading [x]" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        report("saving")
        time.sleep(0.2)
    assert ("loading [x]" in screen.getvalue()) == shown
    assert ("saving" in screen.getvalue()) == shown
    assert (screen.getvalue() == "") == (not shown)
    written = screen.getvalue()
    time.sleep(0.2)
    assert screen.getvalue() == written


def test_two_seconds_of_patience() -> None:
    assert progress._DELAY == 2.0
