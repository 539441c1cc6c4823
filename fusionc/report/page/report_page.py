"""`--report` during a conversion: note the rewrites, measure, and write the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fusionc.disk.paths import DEVICE, PIPE, stream_at
from fusionc.disk.small_files import write_where_told
from fusionc.errors import UsageError
from fusionc.report.page.drawing import require_packages
from fusionc.report.page.graph_map import GraphMap, maps_of
from fusionc.report.page.measured_times import MeasuredTimes, measured_times
from fusionc.report.page.page import page_text
from fusionc.report.page.rewrites import RewriteNotes
from fusionc.report.report import Report
from fusionc.rewrite.definition import Pass

# The first _HEAD_BYTES bytes of every page contain this mark.
_MARK = b'<meta name="generator" content="fusionc'
_HEAD_BYTES = 300


class ReportPage:
    """The page of a conversion. Raises UsageError if `file` cannot become a page."""

    def __init__(self, file: Path) -> None:
        require_packages()
        if file.is_dir() or not file.parent.is_dir():
            what, hint = (
                ("the page of the report is a folder", "give the name of a file")
                if file.is_dir()
                else (
                    "the folder of the page does not exist",
                    f"make the folder (mkdir -p {file.parent}), or give another one",
                )
            )
            raise UsageError(what, where=f"--report {file}", hint=hint, code="E10410")
        stream = stream_at(file)
        if file.exists() and stream not in (PIPE, DEVICE) and (stream or not _is_page(file)):
            what = "the file exists and is not a page of fusionc"
            hint = "remove it, or give another name"
            raise UsageError(what, where=f"--report {file}", hint=hint, code="E10001")
        self.file = file
        self.notes = RewriteNotes()
        self.times = MeasuredTimes(failure="nothing was written")
        self.maps: tuple[GraphMap, GraphMap] | None = None

    def begin(self) -> RewriteNotes:
        """Begin an attempt: discard the rewrites of the previous attempt, and return new notes."""
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
        """Measure the times of the operators of both model files, and draw their maps. The second
        model uses the library `kernels`.
        """
        self.maps = maps_of(before, after)
        self.times = measured_times(before, after, kernels, input_shape, inputs)

    def write(self, report: Report, passes: Sequence[Pass], failure: str = "") -> None:
        """Write the page. `failure` is the error if the result is wrong. If the page cannot be
        written, this is only a notice, because the model has already been written.
        """
        text = page_text(report, passes, self.notes.groups, self.times, failure, self.maps)
        try:
            write_where_told(self.file, text)
        except OSError as error:
            report.notices.append(f"{self.file} is not written: {error.strerror}")
        else:
            report.page = self.file


def _is_page(file: Path) -> bool:
    """Whether a file may be replaced: it is empty or a page of fusionc."""
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return not head or _MARK in head
