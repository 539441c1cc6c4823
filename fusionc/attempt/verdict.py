"""Whether the result of a conversion is right: valid, and in onnxruntime what the reference
computes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fusionc.attempt.job import Job
from fusionc.disk.load import load
from fusionc.disk.onnx_checker import require_as_valid
from fusionc.errors import UsageError, VerificationError
from fusionc.protos import inputs_to_feed
from fusionc.rewrite.log import PatternCount
from fusionc.verify import verify
from fusionc.verify.budget import Budget, elements_of
from fusionc.verify.compare import Numerics
from fusionc.verify.output_errors import OutputErrors
from fusionc.verify.result import IN_PART, Verification


@dataclass(frozen=True)
class Verdict:
    """On a converted model, with a sentence on it; `is_loadable`: valid, and loaded by onnxruntime;
    `is_verified`: the reference runs, so that there was something to compare; `outputs`: how far
    each of them is off; `notices` are for the user; `budget`: what the verification has cost, and
    what it has left out for that.
    """

    is_right: bool
    summary: str
    is_loadable: bool
    is_verified: bool = True
    outputs: Sequence[OutputErrors] = ()
    notices: Sequence[str] = ()
    budget: Budget | None = None


def verdict_on(
    candidate: Path, reference: Path, job: Job, counts: Sequence[PatternCount]
) -> Verdict:
    """Whether a model that the job has made is valid and computes what the reference computes.

    `counts` say what took effect: some passes are for finite numbers only.
    """
    try:
        require_as_valid(candidate, reference)
    except VerificationError as error:
        return Verdict(False, error.what, is_loadable=False)
    options = job.options
    kernels = job.kernels.file
    effective = {count.pass_name for count in counts if count.effected}
    finite = _for_finite(job, effective)
    check = partial(
        verify,
        reference,
        candidate,
        input_shape=job.shapes,
        inputs=options.inputs,
        levels=options.runtime_level,
        numerics=_numerics(job, effective),
        progress=options.progress,
        nonfinite=not finite,
        ahead=job.ahead,
        elements=elements_of(options.verify_budget),
    )
    found = check()
    has_sizes = job.requests.input_shape is not None
    if (
        found.is_refused
        and has_sizes
        and verify(options.source, options.source, seeds=(0,), levels=()).runs
    ):
        raise _unfit(job, of_the_model(found.summary, reference, job))
    with_kernels = found.status == "equal" and kernels is not None
    if with_kernels:
        found = check(kernels=kernels)
    summary = _summary(found, finite, with_kernels=with_kernels)
    # its folder is a temporary one
    summary = summary.replace(f"cannot load {candidate}", "cannot load the result")
    is_known = found.status != "impossible" and (found.runs > 0 or found.status == "different")
    notices = [fault.notice for fault in found.optimizer_faults if not fault.runs]
    return Verdict(
        found.status != "different",
        summary,
        found.is_loadable,
        is_known,
        found.outputs,
        notices,
        found.budget,
    )


def _for_finite(job: Job, effective: Collection[str]) -> list[str]:
    """What may give other results for NaN and infinities: passes that took effect, and operators
    that lost a kernel, as onnxruntime runs others for these.
    """
    names = sorted(p.name for p in job.passes if p.is_for_finite and p.name in effective)
    return [*names, *(f"{lost.op} of opset {lost.since}" for lost in job.lost)]


def _summary(found: Verification, finite: Sequence[str], *, with_kernels: bool) -> str:
    """What was found, in a line; `finite` are those that may give other results for NaN and
    infinities.
    """
    summary = f"not verified: {found.summary}" if found.status == "impossible" else found.summary
    if with_kernels:
        part = IN_PART if found.is_in_part else ""
        summary = f"{part}with generated kernels and without: {found.summary.removeprefix(IN_PART)}"
    if finite and found.status == "equal":
        summary = (
            f"{summary}; NaN and Inf left out, for which {', '.join(finite)} may give other results"
        )
    return summary


def _unfit(job: Job, summary: str) -> UsageError:
    """What to say where the reference does not run with the sizes that were asked for, as the model
    does with its own.

    Values of the other inputs may decide which sizes it takes.
    """
    inputs = inputs_to_feed(load(job.options.source).graph)
    others = [value.name for value in inputs if value.name not in (job.requests.input_shape or {})]
    return job.requests.unfit(summary, others if job.options.inputs is None else ())


def of_the_model(summary: str, reference: Path, job: Job) -> str:
    """What is said of the reference, which may lie in a temporary folder, said of the model."""
    return summary.replace(str(reference), str(job.options.source))


def _numerics(job: Job, effective: Collection[str]) -> Numerics:
    """What the passes that took effect claim together: what the least precise of them does."""
    if job.options.target_opset is not None:
        return "rounding"
    claims = {p.numerics for p in job.passes if p.name in effective}
    return next((kind for kind in ("approximate", "rounding") if kind in claims), "bitwise")
