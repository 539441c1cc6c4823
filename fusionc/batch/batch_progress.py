"""A progress bar for many models. It is shown on stderr, and only in a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fusionc.batch.outcome import Outcome

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class BatchProgress:
    """The progress bar, a context manager. Call it with each outcome. The bar disappears when the
    context ends. If `is_quiet`, it never appears.
    """

    def __init__(self, total: int, *, is_quiet: bool = False) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self.done = self._wrong = 0
        self.total = total
        self._bar: RichProgress | None = None

    def __call__(self, outcome: Outcome) -> None:
        self.done += 1
        self._wrong += not outcome.is_right
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done, wrong=self._text())

    def __enter__(self) -> BatchProgress:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("models{task.fields[wrong]}"))
            self._bar = Progress(
                *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
            )
            self._bar.add_task("", total=self.total, wrong="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def said(self) -> str:
        """The progress so far, as a clause without a full stop."""
        return f"{self.done} of {self.total} models are done{self._text()}"

    def _text(self) -> str:
        return f", {self._wrong} without a result" if self._wrong else ""
