"""From the optimized proto to files: the result is saved under a temporary name next to the output
path, checked and verified, and then published.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.attempt.loadable import DEPLOYED, fault_of_result
from fusionc.conversion.kernel_gain import gain_estimated
from fusionc.disk.publish import Companion, Library, Saved
from fusionc.disk.save import save
from fusionc.errors import UnverifiedError, VerificationError
from fusionc.graph_kernel.library.location import published
from fusionc.ready_form.session_file import (
    is_session_file,
    lost_settings_notices,
    require_session_place,
    session_file_of,
)
from fusionc.report import Report
from fusionc.report.area_labels import area_labels
from fusionc.report.model_info import bytes_on_disk, operator_counts, runtime_operators
from fusionc.report.stage_times import timed

if TYPE_CHECKING:
    from fusionc.attempt.verdict import Verdict
    from fusionc.conversion.in_float16 import LoweredResult
    from fusionc.ready_form.ready_form import MadeReady


def save_if_right(
    model: AskedModel,
    done: ConversionAttempt,
    reference: ReferenceModel | None,
    left_out: LeftOut,
    report: Report,
) -> tuple[ConversionAttempt, list[str]] | None:
    """Write the result if it is right: onnxruntime loads the result and, unless verification is
    off, the result computes what the reference computes. Return the attempt, lowered to float16 if
    that was requested, and messages for the user.

    If the result is wrong, return None and add the rewrites at fault to `left_out`. Raises
    VerificationError if --on_mismatch does not allow leaving out rewrites.
    """
    plan = model.plan
    options = plan.options
    report.operators_after = operator_counts(done.proto)
    report.areas = area_labels(done.proto)
    if options.ready:
        require_session_place(options.destination)
    # raises before the verification if the library cannot be written
    published(plan.kernels.file, options.destination, options.source)
    options.progress("saving")
    with ExitStack() as files:
        with timed(report, "save"):
            saved = files.enter_context(
                save(
                    done.proto, options.source.parent, options.destination, options.external_weight
                )
            )
        notices = list[str]()
        verified = None  # the reference with which the result was compared
        if options.verify and reference is not None:
            with gain_estimated(plan, done, report):
                verdict = _verdict(model, done, saved, reference, left_out, report)
            if not verdict.is_right:
                return None
            notices += verdict.notices
            verified = reference if verdict.is_verified else None
        was_deployed = verified is not None and DEPLOYED in options.runtime_level
        if not was_deployed and not _is_loadable(model, done, saved, left_out, report):
            return None
        folder = options.source.parent
        if plan.precision:
            lowered = _lower(model, done, saved, verified, left_out, report, files)
            folder = lowered.folder
            done = lowered.done
            saved = lowered.saved
            notices += lowered.notices
        with timed(report, "save"):
            model.finish(saved, done.proto, folder, reference)
            report.operators_after = operator_counts(done.proto)
            new = runtime_operators(done.proto) - model.runtime_operators
            report.runtime_operators = sorted(new)
            report.bytes_after = bytes_on_disk(done.proto, saved.model)
            library = published(plan.kernels.file, options.destination, options.source)
            report.kernels = library.place if library.file is not None else None
        ready = None
        if options.ready:
            ready = _ready_form(model, saved, reference, report)
            notices.append(ready.notice)
        with timed(report, "save"):
            notices += _publish(model, saved, ready, library, report)
    return done, notices


def _lower(
    model: AskedModel,
    done: ConversionAttempt,
    saved: Saved,
    reference: ReferenceModel | None,
    left_out: LeftOut,
    report: Report,
    files: ExitStack,
) -> LoweredResult:
    from fusionc.conversion.in_float16 import lower_result  # few conversions need it

    with timed(report, "float16"):
        lowered = lower_result(model, done, saved, reference, left_out, report, files)
    report.areas = area_labels(lowered.done.proto)
    return lowered


def _publish(
    model: AskedModel, saved: Saved, ready: MadeReady | None, library: Library, report: Report
) -> list[str]:
    """Move the result to the output path, with its kernels and its ready form. Return notices
    about the settings of a session file that existed there.
    """
    place = session_file_of(model.plan.options.destination)
    description = None if ready is None else ready.session_file
    companion = Companion(description, place) if description or is_session_file(place) else None
    notices = lost_settings_notices(place)
    data = (*saved.data, *(() if ready is None else ready.data))
    replace(saved, data=data).publish(library, companion)
    report.ready = place if description is not None else None
    return notices


def _is_loadable(
    model: AskedModel, done: ConversionAttempt, saved: Saved, left_out: LeftOut, report: Report
) -> bool:
    """Whether onnxruntime loads the saved result, or does not load the original either. Otherwise
    the rewrite at fault is added to `left_out`.
    """
    model.plan.options.progress("loading the result")
    with timed(report, "load the result"):
        fault = fault_of_result(model.plan, saved.model)
        if fault is not None:
            # imported here because few conversions need the search
            from fusionc.bisect.blame_loading import blame_loading

            blame_loading(model, done, left_out, fault)
    return fault is None


def _ready_form(
    model: AskedModel, saved: Saved, reference: ReferenceModel | None, report: Report
) -> MadeReady:
    from fusionc.ready_form.ready_form import make_ready  # few conversions need it

    options = model.plan.options
    options.progress("making it ready to load")
    sizes = options.verify_shape if reference is None else reference.sizes
    with timed(report, "ready"):
        return make_ready(
            saved,
            model.plan.kernels.file,
            is_compared=options.verify,
            shapes=sizes or {},
            inputs=options.inputs,
        )


def _verdict(
    model: AskedModel,
    done: ConversionAttempt,
    saved: Saved,
    reference: ReferenceModel,
    left_out: LeftOut,
    report: Report,
) -> Verdict:
    """Whether the saved result is right. If the result is wrong, the rewrite at fault is named in
    an error or added to `left_out`.
    """
    # imported here because a conversion without verification does not need these modules
    from fusionc.attempt.verdict import name_model, verdict_on

    plan = model.plan
    plan.kernels.require_loadable()
    plan.options.progress("verifying")
    with timed(report, "verify"):
        verdict = verdict_on(
            saved.model,
            reference,
            plan,
            done.counts,
            model.lost,
            are_narrow=done.is_narrow,
            inner_names=done.inner_names,
        )
        report.verification = name_model(verdict.summary, reference, plan)
        report.outputs = verdict.outputs
        report.budget = verdict.budget
        if verdict.losses is not None and not verdict.losses.is_within:
            if plan.kernels.inherits_bfloat16:
                raise _loss_error(plan, verdict)
            from fusionc.bisect.lost_precision import keep_in_float32  # few conversions need it

            keep_in_float32(model, done, verdict.losses, reference, left_out)
        elif not verdict.is_right:
            from fusionc.bisect.blame import blame  # few conversions need the search

            blame(model, done, verdict, reference, left_out)
    if plan.options.require_verification and report.unverified:
        raise _unverified_error(report)
    return verdict


def _unverified_error(report: Report) -> UnverifiedError:
    return UnverifiedError(
        f"nothing of the result could be verified: {report.unverified}",
        where=str(report.model),
        hint="nothing was written; without --require_verification the result is written",
    )


def _loss_error(plan: ConversionPlan, verdict: Verdict) -> VerificationError:
    """The error if kernels that the model already had lose too much precision in bfloat16. It is
    too late to keep their products in float32.
    """
    return VerificationError(
        f"the kernels next to the model compute in bfloat16: {verdict.losses}",
        where=str(plan.kernels.inherited),
        hint="nothing was written; convert the original model again, or move this library away: "
        "the model's areas run without it, in float32",
        code="E13028",
    )
