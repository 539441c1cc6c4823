"""A conversion from start to finish: plan → load → change → raise the opset → run the passes → save
if the result is right → report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import perf_counter

from onnx import ModelProto

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut, attempt
from fusionc.attempt.conversion_plan import ConversionPlan, plan_of
from fusionc.attempt.running import running
from fusionc.conversion.onlookers import Onlookers, onlookers_of
from fusionc.conversion.save_if_right import save_if_right
from fusionc.custom.idle_passes import idle_passes
from fusionc.options import Options
from fusionc.report import Plog, Report, write_fusion_result
from fusionc.report.graph_dump import GraphDump
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.report.rewrite_text import tell_of_left_out
from fusionc.report.stage_times import timed
from fusionc.requested.float16.precision_modes import MIXED_BFLOAT16
from fusionc.requested.target_opset import opset_advice, waiting_in_result
from fusionc.runtime.process import start
from fusionc.runtime.processor import has_bfloat16


def convert(options: Options) -> Report:
    """Convert the model as `fusionc.convert` documents."""
    start()  # the child process imports onnxruntime in the meantime
    report = Report(options.source, options.destination)
    started = perf_counter()
    with running(options) as plog:
        plan = plan_of(options, plog)
        report.may_get_kernels = _may_get_kernels(plan)
        model = AskedModel(plan)
        left_out = LeftOut()
        with onlookers_of(plan, left_out, report) as onlookers:
            messages = _convert(model, left_out, report, plog, onlookers)
            notices = [*plan.notices, *model.notices, *left_out.notices(), *messages]
            notices += onlookers.notices()
            notices += idle_passes(report.passes(), plan.custom)
            notices += tell_of_left_out(left_out.rewrites, plog)
            report.counts = write_fusion_result(
                report.patterns,
                options.export_compile_stat,
                notices,
                left_out.rewrites,
                report.outputs,
                report.budget,
            )
            report.left_out = len(left_out.rewrites)
            report.in_float32 = list(left_out.wide)
            report.notices = notices
        report.notices += plog.notices  # the page is about the model, not about the log
    report.log_file = plog.file
    report.seconds = perf_counter() - started
    return report


def _may_get_kernels(plan: ConversionPlan) -> bool:
    """Whether kernels are possible, and the options neither ask for them nor exclude them."""
    is_asked = plan.fusion is not None and plan.fusion.flags.is_on
    is_excluded = plan.options.enable_graph_kernel is False
    return plan.kernels.is_for_onnxruntime and not is_asked and not is_excluded


def _convert(
    model: AskedModel, left_out: LeftOut, report: Report, plog: Plog, onlookers: Onlookers
) -> list[str]:
    """Write the result, and return messages for the user."""
    done = None
    notices = None
    messages = list[str]()
    with ExitStack() as stack:
        proto, reference = _prepare(model, report, stack)
        try:
            while notices is None:
                with timed(report, "fuse"):
                    dump = _dump(model.plan.options)
                    examine = onlookers.begin()
                    done = attempt(model.plan, proto, left_out, dump=dump, examine=examine)
                published = save_if_right(model, done, reference, left_out, report)
                if published is None:  # try again without the rewrite at fault
                    done = None
                    proto = model.rebuild()
                else:
                    done, notices = published
            onlookers.measure(reference)
        finally:
            if done is not None:
                messages = _tell_of_attempt(model, done, report, plog)
                messages += _tell_of_bfloat16(model.plan, done, left_out)
    return [*notices, *messages]


def _prepare(
    model: AskedModel, report: Report, stack: ExitStack
) -> tuple[ModelProto, ReferenceModel | None]:
    """The model as the passes get it. Also the reference, if the result is to be compared with
    one; `stack` closes the reference.
    """
    options = model.plan.options
    reference = None
    options.progress("loading")
    with timed(report, "load"):
        proto = model.open()
        report.operators_before = operator_counts(proto)
        report.bytes_before = bytes_on_disk(proto, options.source)
    with timed(report, "prepare"):
        proto = model.change(proto)
        if options.verify or options.report or model.freed is not None:
            reference = stack.enter_context(model.reference(proto))
        if options.verify and reference is not None:
            reference = stack.enter_context(_run_ahead(reference, options))
        return model.raise_opset(proto), reference


@contextmanager
def _run_ahead(reference: ReferenceModel, options: Options) -> Iterator[ReferenceModel]:
    """The reference with its outputs, which a child process computes while the passes run."""
    # imported here because a conversion without verification does not need these modules
    from fusionc.verify.budget import elements_of
    from fusionc.verify.reference_ahead import reference_ahead

    elements = elements_of(options.verify_budget)
    with reference_ahead(reference.file, reference.sizes, options.inputs, elements) as ahead:
        yield replace(reference, ahead=ahead)


def _dump(options: Options) -> GraphDump | None:
    """The dump of the graph after every pass, if --dump_graph was given."""
    if options.dump_graph is None:
        return None
    return GraphDump(options.dump_graph, [options.source, options.destination])


def _tell_of_bfloat16(
    plan: ConversionPlan, done: ConversionAttempt, left_out: LeftOut
) -> list[str]:
    """Messages for the user: why no kernel computes in bfloat16 although --precision_mode_v2 asks
    for that, or how well the loss of accuracy by bfloat16 is known.
    """
    options = plan.options
    notices = list[str]()
    has_new = done.is_narrow and plan.kernels.file is not None
    if plan.precision.mode == MIXED_BFLOAT16 and has_bfloat16() and not has_new:
        reason = _why_not_bfloat16(plan, left_out)
        notices.append(f"--precision_mode_v2={MIXED_BFLOAT16} has no effect: {reason}")
    if not has_new and not plan.kernels.inherits_bfloat16:
        return notices
    if not options.verify:
        notices.append("what bfloat16 costs is not measured, because --no-verify is given")
    elif options.inputs is None:
        notices.append(
            "what bfloat16 costs is measured on random inputs; give real ones with --inputs"
        )
    return notices


def _why_not_bfloat16(plan: ConversionPlan, left_out: LeftOut) -> str:
    if plan.kernels.inherited is not None:
        return "the model has kernels already"
    if left_out.wide:
        return "all products stay in float32"
    kept = " except those that --keep_dtype keeps" if plan.options.keep_dtype is not None else ""
    return f"no kernel multiplies numbers of float32{kept}"


def _tell_of_attempt(
    model: AskedModel, done: ConversionAttempt, report: Report, plog: Plog
) -> list[str]:
    """Report what the patterns did. Return messages for the user about areas and opsets."""
    plan = model.plan
    messages = list[str]()
    report.patterns = done.counts
    report.cost = done.cost
    splits = done.fused.splits if done.fused is not None else ()
    report.pattern_lines = plog.patterns([*done.counts, *splits])
    if plan.fusion is not None:
        from fusionc.graph_kernel.messages import tell_of_areas

        messages = tell_of_areas(done.fused, plan.fusion, plan.kernels, done.counts, plog)
    folder = os.fspath(plan.options.source.parent)
    if done.model is None:
        return messages
    waiting = waiting_in_result(done.counts, plan.passes, done.model)
    return messages + opset_advice(waiting, done.proto, folder)
