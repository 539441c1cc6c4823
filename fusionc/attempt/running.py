"""The context in which a conversion runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fusionc.attempt.failures import explain_errors
from fusionc.options import Options
from fusionc.report import Plog
from fusionc.runtime.custom_operators import custom_operators
from fusionc.runtime.process import step_limit


@contextmanager
def running(options: Options) -> Iterator[Plog]:
    """A context manager that opens the log, sets the time limit of a step, registers the custom
    operators, and explains errors.
    """
    with (
        Plog(options.log) as plog,
        step_limit(options.timeout),
        custom_operators(options.custom_op_library),
        explain_errors(options.source, plog),
    ):
        yield plog
