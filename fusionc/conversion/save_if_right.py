"""From the optimized proto to files: saved beside the result's place, checked and verified there,
published.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fusionc.attempt.job import Job, Optimized
from fusionc.attempt.loadable import DEPLOYED, fault_of_result
from fusionc.disk.publish import Companion, Library, Saved
from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import published
from fusionc.ready_form.session_file import (
    is_session_file,
    of_lost_settings,
    require_session_place,
    session_file_of,
)
from fusionc.report import Report
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.report.stage_times import timed

if TYPE_CHECKING:
    from fusionc.attempt.verdict import Verdict
    from fusionc.ready_form.ready_form import MadeReady


def save_if_right(job: Job, done: Optimized, reference: Path | None, report: Report) -> bool:
    """Whether the result was written: it computes what the reference does, or nobody asks, and
    onnxruntime loads it.

    Raises VerificationError where it is wrong, unless the job leaves out from now on what makes it
    so.
    """
    options = job.options
    kernels = job.kernels.file
    report.operators_after = operator_counts(done.proto)
    if options.ready:
        require_session_place(options.destination)
    # whether the library has a place, before all is verified
    published(kernels, options.destination, options.source)
    options.progress("saving")
    with ExitStack() as files:
        with timed(report, "save"):
            saved = files.enter_context(
                save(
                    done.proto, options.source.parent, options.destination, options.external_weight
                )
            )
        verdict = None
        if options.verify and reference is not None:
            verdict = _verdict(job, done, saved, reference, report)
            if not verdict.is_right:
                return False
        was_deployed = (
            verdict is not None and verdict.is_verified and DEPLOYED in options.runtime_level
        )
        if not was_deployed and not _is_loadable(job, done, saved, report):
            return False
        with timed(report, "save"):
            job.finish(saved, done, reference)
            report.operators_after = operator_counts(done.proto)
            report.bytes_after = bytes_on_disk(done.proto, saved.model)
            library = published(kernels, options.destination, options.source)
            report.kernels = library.place if library.file is not None else None
        made = _ready_form(job, saved, report) if options.ready else None
        with timed(report, "save"):
            _publish(job, saved, made, library, report)
    return True


def _publish(
    job: Job, saved: Saved, made: MadeReady | None, library: Library, report: Report
) -> None:
    """Put the result in its place, with its kernels and its ready form."""
    place = session_file_of(job.options.destination)
    description = None if made is None else made.session_file
    companion = Companion(description, place) if description or is_session_file(place) else None
    notices = of_lost_settings(place)
    replace(saved, data=(*saved.data, *(() if made is None else made.data))).publish(
        library, companion
    )
    report.ready = place if description is not None else None
    job.notices += notices


def _is_loadable(job: Job, done: Optimized, saved: Saved, report: Report) -> bool:
    """Whether onnxruntime loads the saved result if it loads the original; else the rewrite at
    fault is left out.
    """
    job.options.progress("loading the result")
    with timed(report, "load the result"):
        fault = fault_of_result(job, saved.model)
        if fault is not None:
            # few conversions need the search
            from fusionc.bisect.blame_loading import blame_loading

            blame_loading(job, done, fault)
    return fault is None


def _ready_form(job: Job, saved: Saved, report: Report) -> MadeReady:
    from fusionc.ready_form.ready_form import make_ready  # few conversions need it

    options = job.options
    options.progress("making it ready to load")
    with timed(report, "ready"):
        shapes = job.shapes or {}
        made = make_ready(
            saved,
            job.kernels.file,
            is_compared=options.verify,
            shapes=shapes,
            inputs=options.inputs,
        )
        job.notices.append(made.notice)
    return made


def _verdict(job: Job, done: Optimized, saved: Saved, reference: Path, report: Report) -> Verdict:
    """Whether the saved result is right; what to blame where it is not is raised, or left out from
    now on.
    """
    # without verification nobody waits for what they import
    from fusionc.attempt.verdict import of_the_model, verdict_on

    job.kernels.require_loadable()
    job.options.progress("verifying")
    with timed(report, "verify"):
        verdict = verdict_on(saved.model, reference, job, done.counts)
        report.verification = of_the_model(verdict.summary, reference, job)
        report.outputs = verdict.outputs
        report.budget = verdict.budget
        job.notices += verdict.notices
        if not verdict.is_right:
            from fusionc.bisect.blame import blame  # few conversions need the search

            blame(job, done, verdict, reference)
    return verdict
