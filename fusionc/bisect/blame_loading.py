"""What happens with a result that onnxruntime does not load as it will be deployed, with its
optimizers on.
"""

from __future__ import annotations

from fusionc.bisect.blame import NOT_LOADED
from fusionc.bisect.find_culprits import erratic
from fusionc.bisect.first_bad import first_bad
from fusionc.bisect.trials import Opinion, Trials
from fusionc.disk.save import save
from fusionc.errors import VerificationError
from fusionc.job import Job, Optimized
from fusionc.loadable import fault_of_result
from fusionc.report.rewrite_text import where_of

_MOST_LEFT_OUT = 8  # rewrites; more are a defect that must be seen


def blame_loading(job: Job, done: Optimized, fault: str) -> None:
    """Find the rewrite that prevents onnxruntime from loading the result, and leave it out of the
    job from now on.

    Raises VerificationError, which names it, if a user's pass, too many rewrites or no rewrite is
    at fault.
    """
    what = f"onnxruntime cannot load the result: {fault}"
    where = str(job.options.source)
    if not done.log.count:
        hint = "nothing was written; leave out what was asked to change of the model"
        raise VerificationError(what, where=where, hint=hint, code="E13028")
    trials = Trials(
        job, _loaded, lambda run: job.options.progress(f"the rewrite that cannot be loaded: {run}")
    )
    number = first_bad(done.log.count, lambda limit: trials.run(limit).opinion.is_good)[0]
    guilty = done.log.last if number == done.log.count else trials.run(number).last
    if trials.contradiction or guilty is None:
        raise erratic(trials)
    if guilty.pass_name in job.custom or len(job.left_out) >= _MOST_LEFT_OUT:
        where = where_of(guilty, job.custom.get(guilty.pass_name), done.log.count)
        hint = f'nothing was written; convert with --optimization_switch "{guilty.pass_name}:off"'
        raise VerificationError(what, where=where, hint=hint, code="E13028")
    job.left_out[guilty] = NOT_LOADED


def _loaded(job: Job, done: Optimized) -> Opinion:
    with save(done.proto, job.options.source.parent, job.options.destination) as saved:
        fault = fault_of_result(job, saved.model)
    return Opinion(fault is None, fault or "loaded")
