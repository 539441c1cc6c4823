"""Blame one rewrite for a result that onnxruntime cannot load with its optimizers on: either an
error names the rewrite, or it is left out.
"""

from __future__ import annotations

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut
from fusionc.attempt.loadable import fault_of_result
from fusionc.bisect.blame import NOT_LOADED, may_be_left_out
from fusionc.bisect.find_culprits import guilty_rewrite
from fusionc.bisect.trials import Opinion, Trials
from fusionc.disk.save import save
from fusionc.errors import VerificationError
from fusionc.report.rewrite_text import where_of


def blame_loading(
    model: AskedModel, done: ConversionAttempt, left_out: LeftOut, fault: str
) -> None:
    """Find the rewrite that makes the result of an attempt unloadable, and add it to `left_out`.

    `fault` is what onnxruntime said. Raises VerificationError if the rewrite is of a user's own
    pass, if too many rewrites are left out already, or if the result has no rewrites. Raises
    FusioncError if the conversion is not reproducible.
    """
    plan = model.plan
    options = plan.options
    what = f"onnxruntime cannot load the result: {fault}"
    if not done.log.count:
        hint = "nothing was written; leave out the options that change the model itself"
        raise VerificationError(what, where=str(options.source), hint=hint, code="E13028")
    trials = Trials(
        model,
        left_out,
        _loading,
        lambda run: options.progress(f"looking for the rewrite that cannot be loaded: {run}"),
    )
    guilty = guilty_rewrite(trials, done.log)
    if not may_be_left_out(guilty, plan, left_out):
        where = where_of(guilty, plan.custom.get(guilty.pass_name), done.log.count)
        hint = f'nothing was written; convert with --optimization_switch "{guilty.pass_name}:off"'
        raise VerificationError(what, where=where, hint=hint, code="E13028")
    left_out.rewrites[guilty] = NOT_LOADED


def _loading(model: AskedModel, done: ConversionAttempt) -> Opinion:
    options = model.plan.options
    with save(done.proto, options.source.parent, options.destination) as saved:
        fault = fault_of_result(model.plan, saved.model)
    return Opinion(fault is None, fault or "loaded")
