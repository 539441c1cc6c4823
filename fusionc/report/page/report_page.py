"""`--report`: the steps of a page in a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fusionc.disk.paths import DEVICE, PIPE, stream_at
from fusionc.disk.small_files import write_where_told
from fusionc.errors import UsageError
from fusionc.report.page.drawing import require_packages
from fusionc.report.page.measured_times import MeasuredTimes, measured_times
from fusionc.report.page.page import page_text
from fusionc.report.page.rewrites import RewriteNotes
from fusionc.report.report import Report
from fusionc.rewrite.definition import Pass

# in the first bytes of every page
_MARK = b'<meta name="generator" content="fusionc'
_HEAD = 300


class ReportPage:
    """The page that is written to `file`. Raises UsageError if it could not be written."""

    def __init__(self, file: Path) -> None:
        require_packages()
        if file.is_dir() or not file.parent.is_dir():
            what = (
                "the page of the report is a folder"
                if file.is_dir()
                else "the folder of the page does not exist"
            )
            raise UsageError(
                what, where=f"--report {file}", hint="give the name of a file", code="E10410"
            )
        stream = stream_at(file)
        if file.exists() and stream not in (PIPE, DEVICE) and (stream or not _is_page(file)):
            what = "a file is in the way that is not a page of fusionc"
            hint = "remove it, or give another name"
            raise UsageError(what, where=f"--report {file}", hint=hint, code="E10001")
        self.file = file
        self.notes = RewriteNotes()
        self.times = MeasuredTimes(failure="nothing was written")

    def begin(self) -> RewriteNotes:
        """Forget the rewrites of a conversion that begins again."""
        self.notes = RewriteNotes()
        return self.notes

    def measure(
        self,
        before: Path,
        after: Path,
        kernels: Path | None,
        input_shape: Mapping[str, tuple[int, ...]] | None,
        inputs: Path | None,
    ) -> None:
        """Measure the time of the operators of both model files; the second uses the library
        `kernels`.
        """
        self.times = measured_times(before, after, kernels, input_shape, inputs)

    def write(self, report: Report, passes: Sequence[Pass], failure: str = "") -> None:
        """Write the page on a conversion that is done, or whose result is wrong because of
        `failure`. If the page cannot be written, that is a notice, as the model exists.
        """
        text = page_text(report, passes, self.notes.groups, self.times, failure)
        try:
            write_where_told(self.file, text)
        except OSError as error:
            report.notices.append(f"{self.file} is not written: {error.strerror}")
        else:
            report.page = self.file


def _is_page(file: Path) -> bool:
    """Whether a file may be replaced: it is empty or such a page."""
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False
    return not head or _MARK in head
