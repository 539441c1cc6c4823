"""The rewrite at fault: the conversion is repeated with fewer and fewer rewrites until the result is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fusionc.disk.save import save
from fusionc.errors import VerificationError
from fusionc.job import Job, Optimized, Verdict
from fusionc.rewrite.log import Commit

_MOST_LEFT_OUT = 8  # rewrites; more are a defect that is to be seen


def blame(job: Job, done: Optimized, verdict: Verdict, reference: Path) -> None:
    """Find the rewrite that makes the result wrong, of which the verdict speaks and `done` says how it was made.

    Raises VerificationError that names it. Where the result could not be loaded, and no user's pass is at fault,
    nothing is raised: the job leaves that rewrite out from now on, so convert again.
    """
    rewrites, source = done.log.count, str(job.options.source)
    what = f"the result does not compute what the model computes: {verdict.summary}"
    if job.options.target_opset is not None and not _repeated(job, reference, 0)[0]:
        hint = "nothing was written; leave --target_opset out, or give another one"
        where = f"{source}, raised to opset {job.options.target_opset}"
        raise VerificationError(what, where=where, hint=hint, code="E13028")
    if not rewrites:
        what = f"the result differs although nothing was rewritten: {verdict.summary}"
        hint = "the model gives another answer each time; use --no-verify if that is meant"
        raise VerificationError(what, where=source, hint=hint, code="E13028")
    number = first_bad(rewrites, lambda limit: _repeated(job, reference, limit)[0])
    guilty = _repeated(job, reference, number)[1]
    assert guilty is not None
    if not verdict.is_loadable and guilty.pass_name not in job.custom and len(job.left_out) < _MOST_LEFT_OUT:
        job.left_out[guilty] = "the result could not be loaded with it"
        return
    place = job.custom.get(guilty.pass_name)
    at = f"at {', '.join(guilty.nodes) or 'the whole graph'} (rewrite {number} of {rewrites})"
    where = ", ".join(filter(None, (guilty.pass_name, place, f"pattern {guilty.pattern}", at)))
    raise VerificationError(what, where=where, hint=f"nothing was written; {_advice(job, guilty)}", code="E13028")


def first_bad(count: int, is_good: Callable[[int], bool]) -> int:
    """The 1-based number of a commit that breaks the result, by halving.

    `is_good(k)` says whether the result with only the first k of `count` commits is right. It is taken as known that
    `is_good(0)` holds and `is_good(count)` does not; neither is called. At most ceil(log2(count)) calls are made.
    Where goodness comes and goes, the returned commit is still one that turned a right result into a wrong one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one commit, got {count}")
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(middle):
            good = middle
        else:
            bad = middle
    return bad


def _repeated(job: Job, reference: Path, limit: int) -> tuple[bool, Commit | None]:
    """The same conversion, stopped after `limit` rewrites: whether the model is right, and the last rewrite."""
    job.options.progress(f"looking for the rewrite at fault: {limit}")
    done = job.optimized(job.original(), limit)
    with save(done.proto, job.options.source.parent, job.options.destination) as saved:
        return job.verdict(reference, saved.model, done.counts).is_right, done.log.last


def _advice(job: Job, guilty: Commit) -> str:
    off = f'--optimization_switch "{guilty.pass_name}:off"'
    if guilty.pass_name in job.custom:
        return f"correct the pass, or switch it off: {off}"
    if any(p.name == guilty.pass_name and p.numerics == "approximate" for p in job.passes):
        return f"the pass is approximate, too much so for this model; convert with {off}"
    return f"convert with {off}, and please report it"
