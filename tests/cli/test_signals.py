"""Signals end a command by an error, unless they are ignored; those that come at a bad time
wait.
"""

from __future__ import annotations

import signal

import click
import pytest

from fusionc.cli.exit_codes import exit_on_failure
from fusionc.cli.signals import hold_signals, raise_on_signals
from fusionc.errors import Terminated


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_an_import_is_done(number: signal.Signals) -> None:
    done = []

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), hold_signals():
            signal.raise_signal(number)
            done.append("imported")
        assert done and signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_by_an_error(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with (
        pytest.raises(KeyboardInterrupt if number == signal.SIGINT else Terminated),
        raise_on_signals(),
        hold_signals(),
    ):
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with raise_on_signals(), hold_signals():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("ended", "code"), [(Terminated(143), 143), (KeyboardInterrupt(), 130)])
def test_a_library_makes_another_error_of_a_signal(ended: BaseException, code: int) -> None:
    with (
        pytest.raises((SystemExit, click.exceptions.Exit)) as caught,
        exit_on_failure(click.Context(click.Command(""))),
    ):
        try:
            raise ended
        finally:
            raise RuntimeError("the process of onnxruntime has gone")
    assert getattr(caught.value, "exit_code", getattr(caught.value, "code", None)) == code
