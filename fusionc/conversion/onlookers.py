"""Onlookers examine each rewrite of a conversion. There are two: --check_rewrites and --report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fusionc.attempt.asked_model import ReferenceModel
from fusionc.attempt.attempt import LeftOut
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.errors import VerificationError
from fusionc.options import Options
from fusionc.report import Report
from fusionc.report.stage_times import timed

if TYPE_CHECKING:
    from fusionc.check_rewrites.check_rewrites import RewriteChecker
    from fusionc.report.page.report_page import ReportPage


class Onlookers:
    """The onlookers of a conversion. They are created before the conversion begins, so that errors
    in their options are reported at once.
    """

    def __init__(self, plan: ConversionPlan, left_out: LeftOut, report: Report) -> None:
        self._options = plan.options
        self._report = report
        self._checker = _checker(plan, left_out)
        self.page = _page(plan.options)

    def begin(self) -> list[Callable[..., None]]:
        """The functions that examine the rewrites of an attempt that begins now. The checker comes
        first, because it may refuse a rewrite.
        """
        onlookers = (self._checker, self.page)
        return [onlooker.begin().examine for onlooker in onlookers if onlooker is not None]

    def measure(self, reference: ReferenceModel | None) -> None:
        """Measure how long the reference and the result take, and show the times on the page."""
        if self.page is None or reference is None:
            return
        options = self._options
        options.progress("measuring")
        with timed(self._report, "report"):
            self.page.measure(
                reference.file,
                options.destination,
                self._report.kernels,
                reference.sizes,
                options.inputs,
            )

    def notices(self) -> list[str]:
        """Messages for the user about the checked rewrites."""
        return [] if self._checker is None else self._checker.notices()


@contextmanager
def onlookers_of(plan: ConversionPlan, left_out: LeftOut, report: Report) -> Iterator[Onlookers]:
    """A context manager for the onlookers that the options ask for. The page is written at the
    end, even if the result is wrong.
    """
    onlookers = Onlookers(plan, left_out, report)
    page = onlookers.page
    try:
        yield onlookers
    except VerificationError as error:
        if page is not None:
            page.write(report, plan.passes, str(error))
        raise
    if page is not None:
        page.write(report, plan.passes)


def _checker(plan: ConversionPlan, left_out: LeftOut) -> RewriteChecker | None:
    if not plan.options.check_rewrites:
        return None
    # imported here, as in _page, because few conversions need it
    from fusionc.check_rewrites.check_rewrites import RewriteChecker

    return RewriteChecker(left_out.rewrites, plan.kernels, plan.options.on_mismatch)


def _page(options: Options) -> ReportPage | None:
    if options.report is None:
        return None
    from fusionc.report.page.report_page import ReportPage

    return ReportPage(options.report)
