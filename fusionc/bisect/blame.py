"""What happens after a conversion with a wrong result: the rewrite at fault is named, or left
out.
"""

from __future__ import annotations

from pathlib import Path

from fusionc.bisect.find_culprits import LEFT_OUT, erratic
from fusionc.bisect.first_bad import first_bad
from fusionc.bisect.judges import Verifying
from fusionc.bisect.trials import Trials
from fusionc.errors import UsageError, VerificationError
from fusionc.graph_kernel.select.replace_by_call import ALGORITHMS, BLOCKED, PRODUCTS
from fusionc.job import Job, Optimized
from fusionc.report.rewrite_text import where_of
from fusionc.rewrite.log import Commit
from fusionc.verdict import Verdict

NOT_LOADED = "the result could not be loaded with it"
_MOST_LEFT_OUT = 8  # rewrites; more are a defect that must be seen
# rewrites of one pass that are rolled back; then the pass is off, as each costs a search
_ENOUGH = 3


def blame(job: Job, done: Optimized, verdict: Verdict, reference: Path) -> None:
    """Find the rewrite that makes the result wrong. The verdict says what is wrong, `done` how the
    result was made.

    Raises VerificationError with the name of the rewrite, FusioncError if the conversion is not
    deterministic. Raises nothing with --on_mismatch rollback, or if the result could not be loaded
    and no user's pass is at fault: then the job leaves the rewrite out from now on, so convert
    again.
    """
    rewrites = done.log.count
    source = str(job.options.source)
    what = f"the result does not compute what the model computes: {verdict.summary}"
    trials = Trials(
        job,
        Verifying(reference, done.counts),
        lambda run: job.options.progress(f"the rewrite at fault: {run}"),
    )
    if job.options.target_opset is not None and trials.run(0).opinion.is_good is False:
        where = f"{source}, raised to opset {job.options.target_opset}"
        # onnxruntime may have an operator for other types in the newer opset
        if not verdict.is_loadable:
            summary = verdict.summary.removeprefix("different: ")
            hint = "nothing was written; give another opset"
            raise UsageError(
                f"the model cannot be raised: {summary}", where=where, hint=hint, code="E10001"
            )
        hint = (
            "nothing was written; raising is at fault, no pass is: please report it. Another "
            "--target_opset may do"
        )
        raise VerificationError(what, where=where, hint=hint, code="E13028")
    if not rewrites:
        what = f"the result differs although nothing was rewritten: {verdict.summary}"
        hint = "the model gives another answer each time; use --no-verify if that is meant"
        raise VerificationError(what, where=source, hint=hint, code="E13028")
    number = first_bad(rewrites, lambda limit: trials.run(limit).opinion.is_good is not False)[0]
    guilty = done.log.last if number == rewrites else trials.run(number).last
    if trials.contradiction or guilty is None:
        raise erratic(trials)
    if job.options.on_mismatch == "rollback":
        _roll_back(job, guilty, NOT_LOADED if not verdict.is_loadable else LEFT_OUT)
        return
    if (
        not verdict.is_loadable
        and guilty.pass_name not in job.custom
        and len(job.left_out) < _MOST_LEFT_OUT
    ):
        job.left_out[guilty] = NOT_LOADED
        return
    where = where_of(guilty, job.custom.get(guilty.pass_name), rewrites)
    raise VerificationError(
        what, where=where, hint=f"nothing was written; {_advice(job, done, guilty)}", code="E13028"
    )


def _roll_back(job: Job, guilty: Commit, reason: str) -> None:
    job.left_out[guilty] = reason
    if sum(commit.pass_name == guilty.pass_name for commit in job.left_out) == _ENOUGH:
        job.notices.append(
            f"{guilty.pass_name} is off: the result was wrong with {_ENOUGH} of its rewrites"
        )
        job.leave_out(guilty.pass_name)


def _advice(job: Job, done: Optimized, guilty: Commit) -> str:
    off = f'--optimization_switch "{guilty.pass_name}:off"'
    if guilty.pass_name in job.custom:
        return f"correct the pass, or switch it off: {off}"
    taken = ALGORITHMS.keys() & {count.pass_name for count in done.counts if count.effected}
    # rounding errors of these algorithms are larger
    if taken and guilty.pass_name in (BLOCKED, PRODUCTS):
        first = ";".join(f"{name}:off" for name in sorted(taken))
        exact = f'--optimization_switch "{first}", which rounds as the model does'
        return f"convert with {exact}, or else with {off}"
    if any(p.name == guilty.pass_name and p.numerics == "approximate" for p in job.passes):
        return f"the pass is approximate, too much so for this model; convert with {off}"
    return f"convert with {off}, and please report it: fusionc bisect makes a small model for that"
