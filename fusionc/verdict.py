"""Whether the result of a conversion is right: valid, and in onnxruntime what the reference computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fusionc.disk.onnx_checker import require_as_valid
from fusionc.errors import VerificationError
from fusionc.job import Job
from fusionc.rewrite.log import PatternCount
from fusionc.verify import verify
from fusionc.verify.compare import Numerics
from fusionc.verify.output_errors import OutputErrors


@dataclass(frozen=True)
class Verdict:
    """On a converted model, with a sentence on it; `is_loadable`: valid, and loaded by onnxruntime; `is_verified`: the
    reference runs, so that there was something to compare; `outputs`: how far each of them is off."""

    is_right: bool
    summary: str
    is_loadable: bool
    is_verified: bool = True
    outputs: Sequence[OutputErrors] = ()


def verdict_on(candidate: Path, reference: Path, job: Job, counts: Sequence[PatternCount]) -> Verdict:
    """Whether a model that the job has made is valid and computes what the reference computes.

    `counts` say what took effect: some passes are for finite numbers only.
    """
    try:
        require_as_valid(candidate, reference)
    except VerificationError as error:
        return Verdict(False, error.what, is_loadable=False)
    options, kernels = job.options, job.kernels.file
    effective = {count.pass_name for count in counts if count.effected}
    finite = sorted(p.name for p in job.passes if p.is_for_finite and p.name in effective)
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
    )
    found = check()
    has_sizes = job.requests.input_shape is not None
    if found.is_refused and has_sizes and verify(options.source, options.source, seeds=(0,), levels=()).runs:
        raise job.requests.unfit(found.summary)
    if found.status == "equal" and kernels is not None:
        found = check(kernels=kernels)
        summary = f"with generated kernels and without: {found.summary}"
    else:
        summary = f"not verified: {found.summary}" if found.status == "impossible" else found.summary
    if finite and found.status == "equal":
        summary = f"{summary}; NaN and Inf left out, for which {', '.join(finite)} may give other results"
    is_known = found.status != "impossible"
    return Verdict(found.status != "different", summary, found.is_loadable, is_known, found.outputs)


def _numerics(job: Job, effective: Collection[str]) -> Numerics:
    """What the passes that took effect claim together: what the least precise of them does."""
    if job.options.target_opset is not None:
        return "rounding"
    claims = {p.numerics for p in job.passes if p.name in effective}
    return next((kind for kind in ("approximate", "rounding") if kind in claims), "bitwise")
