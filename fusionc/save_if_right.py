"""From the optimized proto to files: saved beside the result's place, checked and verified there, published."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import published
from fusionc.job import Job, Optimized
from fusionc.report import Report
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.report.stage_times import timed
from fusionc.verdict import verdict_on


def save_if_right(job: Job, done: Optimized, reference: Path | None, report: Report) -> bool:
    """Whether the result was written: it computes what the reference does, or nobody asks.

    Raises VerificationError where it is wrong, unless the job leaves out from now on what makes it so.
    """
    options, kernels = job.options, job.kernels.file
    report.operators_after = operator_counts(done.proto)
    published(kernels, options.destination, options.source)  # whether the library has a place, before all is verified
    options.progress("saving")
    with ExitStack() as files:
        with timed(report, "save"):
            saved = files.enter_context(
                save(done.proto, options.source.parent, options.destination, options.external_weight)
            )
        if options.verify and reference is not None and not _is_right(job, done, saved, reference, report):
            return False
        with timed(report, "save"):
            job.finish(saved, done, reference)
            report.operators_after = operator_counts(done.proto)
            report.bytes_after = bytes_on_disk(done.proto, saved.model)
            library = published(kernels, options.destination, options.source)
            report.kernels = library.place if library.file is not None else None
            saved.publish(library)
    return True


def _is_right(job: Job, done: Optimized, saved: Saved, reference: Path, report: Report) -> bool:
    """Whether the saved result is right; what to blame where it is not is raised, or left out from now on."""
    job.kernels.require_loadable()
    job.options.progress("verifying")
    with timed(report, "verify"):
        verdict = verdict_on(saved.model, reference, job, done.counts)
        report.verification, report.outputs = verdict.summary, verdict.outputs
        if not verdict.is_right:
            from fusionc.bisection.blame import blame  # few conversions need the search

            blame(job, done, verdict, reference)
    return verdict.is_right
