"""The story on one page: load → switches → pipeline → save → check and verify → publish →
report.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from time import perf_counter

from fusionc.attempt.job import Job, job_of, running
from fusionc.conversion.onlookers import Onlookers, onlookers_of
from fusionc.conversion.save_if_right import save_if_right
from fusionc.custom.idle_passes import idle_passes
from fusionc.options import Options
from fusionc.report import Plog, Report, write_fusion_result
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.report.rewrite_text import tell_of_left_out
from fusionc.report.stage_times import timed
from fusionc.requested.target_opset import opset_advice
from fusionc.runtime.process import start


def convert(options: Options) -> Report:
    """Do what `fusionc.convert` says of these options."""
    start()  # it imports onnxruntime meanwhile
    report = Report(options.source, options.destination)
    started = perf_counter()
    with running(options) as plog:
        job = job_of(options, plog)
        with onlookers_of(job, report) as onlookers:
            told = _convert(job, report, plog, onlookers)
            notices = [*job.notices, *told, *onlookers.notices()]
            notices += idle_passes(report.passes(), job.custom)
            notices += tell_of_left_out(job.left_out, plog)
            write_fusion_result(
                report.patterns,
                options.export_compile_stat,
                notices,
                job.left_out,
                report.outputs,
                report.budget,
            )
            report.left_out = len(job.left_out)
            report.notices = [*notices, *plog.notices]
    report.log_file = plog.file
    report.seconds = perf_counter() - started
    return report


def _convert(job: Job, report: Report, plog: Plog, onlookers: Onlookers) -> list[str]:
    """Write the result, and return what the user should know of its areas."""
    options = job.options
    done = None
    told = list[str]()
    with ExitStack() as stack:
        options.progress("loading")
        with timed(report, "load"):
            proto = job.opened()
            report.operators_before = operator_counts(proto)
            report.bytes_before = bytes_on_disk(proto, options.source)
        with timed(report, "prepare"):
            job.changed(proto)
            reference = (
                stack.enter_context(job.reference(proto))
                if options.verify or options.report or job.freed is not None
                else None
            )
            if options.verify and reference is not None:
                # others do not wait for what they import
                from fusionc.verify.budget import elements_of
                from fusionc.verify.reference_ahead import reference_ahead

                elements = elements_of(options.verify_budget)
                job.ahead = stack.enter_context(
                    reference_ahead(reference, job.shapes, options.inputs, elements)
                )
        try:
            while done is None:
                with timed(report, "fuse"):
                    done = job.optimized(proto, dump=job.dump(), examine=onlookers.begin())
                if not save_if_right(job, done, reference, report):
                    # and again, without what is to blame
                    proto = job.original()
                    done = None
            onlookers.measure(reference)
        finally:
            if done is not None:
                report.patterns = done.counts
                splits = done.fused.splits if done.fused is not None else ()
                report.pattern_lines = plog.patterns([*done.counts, *splits])
                if job.fusion is not None:
                    from fusionc.graph_kernel.messages import tell_of_areas

                    told = tell_of_areas(done.fused, job.fusion, job.kernels, done.counts, plog)
                told += opset_advice(report.patterns, done.proto, os.fspath(options.source.parent))
    return told
