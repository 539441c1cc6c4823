"""Blame one rewrite for a wrong result: either an error names the rewrite, or it is left out."""

from __future__ import annotations

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.attempt.verdict import Verdict
from fusionc.bisect.find_culprits import LEFT_OUT, guilty_rewrite
from fusionc.bisect.judges import Verifying
from fusionc.bisect.trials import Trials
from fusionc.errors import FusioncError, UsageError, VerificationError
from fusionc.graph_kernel.select.replace_by_call import ALGORITHMS, BLOCKED, PRODUCTS
from fusionc.report.rewrite_text import where_of
from fusionc.rewrite.log import Commit

NOT_LOADED = "the result could not be loaded with this rewrite"
_MAX_LEFT_OUT = 8  # if more rewrites than these are at fault, the conversion ends with an error


def blame(
    model: AskedModel,
    done: ConversionAttempt,
    verdict: Verdict,
    reference: ReferenceModel,
    left_out: LeftOut,
) -> None:
    """Find the rewrite that makes the result of an attempt wrong.

    Usually raises VerificationError, which names the rewrite. There are two cases in which the
    rewrite is added to `left_out` for the next attempt instead:

    - --on_mismatch is rollback;
    - onnxruntime cannot load the result, the rewrite is not of a user's own pass, and not too many
      rewrites are left out already.

    Raises FusioncError if the conversion is not reproducible.
    """
    plan = model.plan
    options = plan.options
    trials = Trials(
        model,
        left_out,
        Verifying(reference, done.counts),
        lambda run: options.progress(f"looking for the rewrite at fault: {run}"),
    )
    what = f"the result does not compute what the model computes: {verdict.summary}"
    if plan.requests.target_opset is not None and trials.run(0).opinion.is_good is False:
        where = f"{options.source}, raised to opset {plan.requests.target_opset}"
        raise _raising_is_at_fault(what, where, verdict)
    if not done.log.count:
        what = f"the result differs although nothing was rewritten: {verdict.summary}"
        hint = "the model gives different outputs in each run; if that is intended, use --no-verify"
        raise VerificationError(what, where=str(options.source), hint=hint, code="E13028")
    guilty = guilty_rewrite(trials, done.log, is_unknown_good=True)
    if options.on_mismatch == "rollback":
        left_out.roll_back(guilty, LEFT_OUT if verdict.is_loadable else NOT_LOADED)
    elif not verdict.is_loadable and may_be_left_out(guilty, plan, left_out):
        left_out.rewrites[guilty] = NOT_LOADED
    else:
        where = where_of(guilty, plan.custom.get(guilty.pass_name), done.log.count)
        hint = f"nothing was written; {_advice(plan, done, guilty)}"
        raise VerificationError(what, where=where, hint=hint, code="E13028")


def may_be_left_out(guilty: Commit, plan: ConversionPlan, left_out: LeftOut) -> bool:
    """Whether a rewrite that makes the result unloadable may be left out without an error: its pass
    is not a user's own, and not too many rewrites are left out already.
    """
    return guilty.pass_name not in plan.custom and len(left_out.rewrites) < _MAX_LEFT_OUT


def _raising_is_at_fault(what: str, where: str, verdict: Verdict) -> FusioncError:
    # This is not a defect: onnxruntime may lack a kernel for the model's types at the newer opset.
    if not verdict.is_loadable:
        summary = verdict.summary.removeprefix("different: ")
        return UsageError(
            f"the model cannot be raised to this opset: {summary}",
            where=where,
            hint="nothing was written; give another opset",
            code="E10001",
        )
    hint = (
        "nothing was written; raising the opset is at fault, not a pass; please report it. "
        "Another --target_opset may work"
    )
    return VerificationError(what, where=where, hint=hint, code="E13028")


def _advice(plan: ConversionPlan, done: ConversionAttempt, guilty: Commit) -> str:
    off = f'--optimization_switch "{guilty.pass_name}:off"'
    if guilty.pass_name in plan.custom:
        return f"correct the pass, or switch it off: {off}"
    used = ALGORITHMS.keys() & {count.pass_name for count in done.counts if count.effected}
    # the passes in ALGORITHMS choose algorithms that have larger rounding errors
    if used and guilty.pass_name in (BLOCKED, PRODUCTS):
        first = ";".join(f"{name}:off" for name in sorted(used))
        return (
            f'convert with --optimization_switch "{first}", which gives smaller rounding errors; '
            f"if that does not help, convert with {off}"
        )
    if any(p.name == guilty.pass_name and p.numerics == "approximate" for p in plan.passes):
        return f"the error of this approximate pass is too large for the model; convert with {off}"
    return f"convert with {off}, and please report it: fusionc bisect makes a small model to report"
