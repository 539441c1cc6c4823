"""Measure the stages of a conversion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from fusionc.report.report import Report


@contextmanager
def timed(report: Report, stage: str) -> Iterator[None]:
    """A context manager that adds its duration to the seconds of a stage."""
    start = perf_counter()
    try:
        yield
    finally:
        report.stages[stage] = report.stages.get(stage, 0.0) + perf_counter() - start
