"""Signals that come at a bad time wait."""

from __future__ import annotations

import signal

import pytest

from fusionc.cli.signals import held_back


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_an_import_is_done(number: signal.Signals) -> None:
    done = []

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), held_back():
            signal.raise_signal(number)
            done.append("imported")
        assert done and signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_back():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
