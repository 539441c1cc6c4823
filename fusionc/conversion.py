"""The story on one page: load → switches → pipeline → save → check and verify → publish → report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from fusionc.bisection.blame import blame
from fusionc.custom.idle import idle_passes
from fusionc.disk.load import load
from fusionc.disk.places import require_place
from fusionc.disk.save import save
from fusionc.errors import VerificationError
from fusionc.graph_kernel.library.location import library_for, published
from fusionc.graph_kernel.messages import tell_of_areas
from fusionc.job import Job, job_of, running
from fusionc.options import Options
from fusionc.report import Plog, Report, write_fusion_result
from fusionc.report.model_info import bytes_on_disk, operators_of
from fusionc.rewrite_check.check_rewrites import RewriteChecker
from fusionc.runtime.process import start
from fusionc.target_opset import opset_advice

if TYPE_CHECKING:
    from fusionc.report_page.report_page import ReportPage


def convert(options: Options) -> Report:
    """Do what `fusionc.convert` says of these options."""
    start()  # it imports onnxruntime meanwhile
    report, started = Report(options.source, options.destination), perf_counter()
    with running(options) as plog:
        job = job_of(options, plog)
        page = None if options.report is None else _page(options.report)
        try:
            told = _convert(job, report, plog, page)
        except VerificationError as error:
            if page is not None:
                page.write(report, job.passes, str(error))
            raise
        notices = [*job.notices, *told, *idle_passes(report.passes(), job.custom), *opset_advice(report.patterns)]
        notices += job.what_was_left_out(plog)
        left_out = Counter((commit.graph_id, commit.pass_name) for commit in job.left_out)
        write_fusion_result(report.patterns, options.export_compile_stat, notices, left_out, report.outputs)
        report.notices = [*notices, *plog.notices]
        if page is not None:
            page.write(report, job.passes)
    report.log_file, report.seconds = plog.file, perf_counter() - started
    return report


def _page(file: Path) -> ReportPage:
    from fusionc.report_page.report_page import ReportPage  # few conversions need all that it imports

    return ReportPage(file)


def _convert(job: Job, report: Report, plog: Plog, page: ReportPage | None) -> list[str]:
    """Write the result, and return what the user should know of its areas."""
    options, kernels, source, destination = job.options, job.kernels, job.options.source, job.options.destination
    done, told = None, list[str]()
    checker = RewriteChecker(job.left_out, kernels, options.on_mismatch) if options.check_rewrites else None
    with ExitStack() as stack:
        options.progress("loading")
        with _timed(report, "load"):
            proto = load(source)
            require_place(destination)
            job.notices += kernels.inherit(proto, library_for(source), options.trust_kernels)
            report.operators_before, report.bytes_before = operators_of(proto), bytes_on_disk(proto, source)
        with _timed(report, "prepare"):
            job.requests.apply(proto, os.fspath(source.parent))
            types = job.requests.types(proto)
            reference = stack.enter_context(job.reference(proto)) if options.verify or page else None
        try:
            while done is None:
                with _timed(report, "fuse"):
                    done = job.optimized(proto, dump=job.dump(), examine=_examiners(checker, page))
                report.operators_after = operators_of(done.proto)
                published(kernels.file, destination, source)  # whether the library has a place, before all is verified
                options.progress("saving")
                with ExitStack() as files:
                    with _timed(report, "save"):
                        saved = files.enter_context(
                            save(done.proto, source.parent, destination, options.external_weight)
                        )
                    if reference is not None and options.verify:
                        kernels.require_loadable()
                        options.progress("verifying")
                        with _timed(report, "verify"):
                            verdict = job.verdict(reference, saved.model, done.counts)
                            report.verification, report.outputs = verdict.summary, verdict.outputs
                            if not verdict.is_right:
                                blame(job, done, verdict, reference)
                                proto, done = job.original(), None  # and again, without what is to blame
                                continue
                    with _timed(report, "save"):
                        job.finish(saved, done, types, reference)
                        report.operators_after = operators_of(done.proto)
                        report.bytes_after = bytes_on_disk(done.proto, saved.model)
                        library = published(kernels.file, destination, source)
                        report.kernels = library.place if library.file is not None else None
                        saved.publish(library)
            if reference is not None and page is not None:
                options.progress("measuring")
                with _timed(report, "report"):
                    page.measure(reference, destination, report.kernels, job.shapes, options.inputs)
        finally:
            if done is not None:
                report.patterns = done.counts
                report.pattern_lines = plog.patterns([*done.counts, *done.fused.splits])
                told = tell_of_areas(done.fused, job.fusion, kernels, done.counts, plog)
    return [*told, *(checker.notices() if checker else ())]


def _examiners(checker: RewriteChecker | None, page: ReportPage | None) -> list[Callable[..., None]]:
    """Who looks at each rewrite of a conversion that begins: first who may refuse it."""
    return [one.begin().examine for one in (checker, page) if one is not None]


@contextmanager
def _timed(report: Report, stage: str) -> Iterator[None]:
    """Add the seconds that this takes to those of a stage."""
    start = perf_counter()
    try:
        yield
    finally:
        report.stages[stage] = report.stages.get(stage, 0.0) + perf_counter() - start
