"""Whether the result of a conversion is right: it is valid, and in onnxruntime it computes what the
reference computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from fusionc.attempt.asked_model import ReferenceModel
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.attempt.profile_checks import at_each_profile
from fusionc.disk.load import load
from fusionc.disk.onnx_checker import require_as_valid
from fusionc.errors import UsageError, VerificationError
from fusionc.model.operators import KERNELS
from fusionc.protos import inputs_to_feed
from fusionc.report.report import NOT_VERIFIED
from fusionc.requested.target_opset import LostKernel
from fusionc.rewrite.log import PatternCount
from fusionc.runtime.optimizers import LEVELS
from fusionc.verify import verify
from fusionc.verify.budget import Budget, elements_of
from fusionc.verify.compare import Numerics
from fusionc.verify.grid_steps import InnerGrids
from fusionc.verify.output_errors import OutputErrors
from fusionc.verify.precision_loss import PrecisionLosses, precision_losses
from fusionc.verify.result import IN_PART, Verification


@dataclass(frozen=True)
class Verdict:
    """The judgment on a converted model."""

    is_right: bool
    summary: str  # a sentence
    is_loadable: bool  # valid, and loaded by onnxruntime
    is_verified: bool = True  # whether the reference ran and its outputs were compared
    outputs: Sequence[OutputErrors] = ()  # the errors of each output
    notices: Sequence[str] = ()  # for the user
    budget: Budget | None = None  # what the verification cost, and what the budget left out
    losses: PrecisionLosses | None = None  # what bfloat16 costs, if the kernels use it


def verdict_on(
    candidate: Path,
    reference: ReferenceModel,
    plan: ConversionPlan,
    counts: Sequence[PatternCount],
    lost: Sequence[LostKernel] = (),
    *,
    are_narrow: bool = False,
    inner_names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Verdict:
    """Whether the converted model `candidate` is valid and computes what the reference computes.

    `counts` say which passes took effect: some passes are correct for finite numbers only. `lost`
    are the kernels that were lost by raising the opset. With `are_narrow` the new kernels compute
    in bfloat16. `inner_names` are the names of values inside areas (see `ConversionAttempt`).
    """
    are_narrow = are_narrow or plan.kernels.inherits_bfloat16
    try:
        require_as_valid(candidate, reference.file)
    except VerificationError as error:
        return Verdict(False, error.what, is_loadable=False)
    options = plan.options
    kernels = plan.kernels.file
    effective = {count.pass_name for count in counts if count.effected}
    finite = _finite_only(plan, effective, lost)
    check = partial(
        verify,
        reference.file,
        candidate,
        input_shape=reference.sizes,
        inputs=options.inputs,
        levels=options.runtime_level,
        numerics=_numerics(plan, effective),
        progress=options.progress,
        nonfinite=not finite,
        ahead=reference.ahead,
        elements=elements_of(options.verify_budget),
    )
    checks = [partial(check, inner_grids=_areas_inlined(inner_names))]
    verification = checks[0]()
    if verification.is_refused and _sizes_are_to_blame(plan):
        raise _unfit_error(plan, name_model(verification.summary, reference, plan))
    losses = None
    with_kernels = False
    if verification.status == "equal" and kernels is not None:
        with_kernels = not are_narrow
        losses = losses_of(candidate, kernels, reference, plan) if are_narrow else None
        if with_kernels:
            without = verification
            kernel_check = partial(check, kernels=kernels, inner_grids=_twins(plan))
            verification = _check_kernels(kernel_check, candidate, without)
            checks.append(kernel_check)
    verification = _at_profiles(verification, checks, reference, plan)
    summary = _summary(verification, finite, with_kernels=with_kernels)
    # the folder of the candidate is a temporary one
    summary = summary.replace(f"cannot load {candidate}", "cannot load the result")
    verdict = _verdict(verification, summary)
    return verdict if losses is None else _with_losses(verdict, losses)


def _at_profiles(
    verification: Verification,
    checks: Sequence[partial[Verification]],
    reference: ReferenceModel,
    plan: ConversionPlan,
) -> Verification:
    """The verification, continued at the sizes of --dynamic_batch_size and similar options."""
    profiles = plan.requests.profiles
    if profiles is None or verification.status != "equal":
        return verification
    return at_each_profile(
        verification, checks, reference.profiles, profiles.option, len(profiles.shapes)
    )


def _verdict(verification: Verification, summary: str) -> Verdict:
    return Verdict(
        is_right=verification.status != "different",
        summary=summary,
        is_loadable=verification.is_loadable,
        is_verified=verification.status == "different"
        or (verification.status != "impossible" and verification.runs > 0),
        outputs=verification.outputs,
        notices=[fault.notice for fault in verification.optimizer_faults if not fault.runs],
        budget=verification.budget,
    )


def _with_losses(verdict: Verdict, losses: PrecisionLosses) -> Verdict:
    """The verdict without kernels, combined with the losses of the bfloat16 kernels."""
    return replace(
        verdict,
        is_right=losses.is_within,
        summary=f"without generated kernels: {verdict.summary}; with them, in bfloat16: {losses}",
        losses=losses,
    )


def losses_of(
    candidate: Path, kernels: Path, reference: ReferenceModel, plan: ConversionPlan
) -> PrecisionLosses:
    """What bfloat16 costs in the kernels of a converted model."""
    options = plan.options
    return precision_losses(
        reference.file,
        candidate,
        kernels,
        options.precision_error,
        input_shape=reference.sizes,
        inputs=options.inputs,
        elements=elements_of(options.verify_budget),
        progress=options.progress,
    )


def _check_kernels(
    check: partial[Verification], candidate: Path, without: Verification
) -> Verification:
    """The verification with kernels. `without` is the verification without kernels, which came
    first.

    Kernels of integers compute the same as the integer operators that onnxruntime's optimizers make
    of a quantized model. Therefore the kernels are first compared with the optimized candidate (the
    converted model) without kernels. This comparison is left out if these optimizers are at fault
    or were not checked, because kernels with the same fault would pass it. If the comparison is
    left out or finds a difference, the kernels are compared with the reference.
    """
    level = LEVELS[-1]
    is_checked = level in check.keywords["levels"]
    is_at_fault = any(fault.level == level for fault in without.optimizer_faults)
    if is_checked and not is_at_fault and _has_kernels_of_integers(candidate):
        settings = {**check.keywords, "level": level, "levels": (), "ahead": None}
        verification = check.func(candidate, candidate, **settings)
        if verification.status == "equal":
            return verification
    return check()


def _areas_inlined(names: Mapping[str, Mapping[str, str]]) -> InnerGrids | None:
    """What shows the integers inside areas that run without kernels. `None` without areas."""
    if not names:
        return None
    from fusionc.graph_kernel.inner_grids import AreasInlined  # few conversions need it

    return AreasInlined(names)


def _twins(plan: ConversionPlan) -> InnerGrids | None:
    """Kernels that also show the integers inside areas. `None` if the model already had its kernels
    before the conversion.
    """
    if not plan.kernels.areas:
        return None
    from fusionc.graph_kernel.inner_grids import AreaTwins  # few conversions need it

    return AreaTwins(plan.kernels.areas)


def _has_kernels_of_integers(candidate: Path) -> bool:
    functions = load(candidate).functions
    return any(
        function.domain == KERNELS
        and any(node.op_type == "QuantizeLinear" for node in function.node)
        for function in functions
    )


def _finite_only(
    plan: ConversionPlan, effective: Collection[str], lost: Sequence[LostKernel]
) -> list[str]:
    """The names of the passes that took effect and of the operators that lost a kernel, if they may
    give other results for NaN and infinities.
    """
    names = sorted(p.name for p in plan.passes if p.is_for_finite and p.name in effective)
    return [*names, *(f"{kernel.op} of opset {kernel.since}" for kernel in lost)]


def _summary(verification: Verification, finite: Sequence[str], *, with_kernels: bool) -> str:
    """The result of the verification in one line. `finite` names the passes and operators that may
    give other results for NaN and infinities.
    """
    summary = verification.summary
    if verification.status == "impossible":
        summary = f"{NOT_VERIFIED}{summary}"
    if with_kernels:
        part = IN_PART if verification.is_in_part else ""
        summary = f"{part}with generated kernels and without: {summary.removeprefix(IN_PART)}"
    if finite and verification.status == "equal":
        summary = (
            f"{summary}; NaN and Inf left out, for which {', '.join(finite)} may give other results"
        )
    return summary


def _sizes_are_to_blame(plan: ConversionPlan) -> bool:
    """Whether the requested sizes make the reference fail: the model runs with its own sizes."""
    source = plan.options.source
    return plan.requests.input_shape is not None and bool(
        verify(source, source, seeds=(0,), levels=()).runs
    )


def _unfit_error(plan: ConversionPlan, summary: str) -> UsageError:
    """The error for requested sizes with which the model does not run. Without --inputs the error
    names the other inputs, because their values may decide which sizes fit.
    """
    inputs = inputs_to_feed(load(plan.options.source).graph)
    sizes = plan.requests.input_shape or {}
    others = [value.name for value in inputs if value.name not in sizes]
    return plan.requests.unfit_error(summary, others if plan.options.inputs is None else ())


def name_model(summary: str, reference: ReferenceModel, plan: ConversionPlan) -> str:
    """The summary with the path of the model instead of the path of the reference, which may be a
    temporary file.
    """
    return summary.replace(str(reference.file), str(plan.options.source))


def _numerics(plan: ConversionPlan, effective: Collection[str]) -> Numerics:
    """The numerics of the least precise pass that took effect."""
    if plan.requests.target_opset is not None:
        return "rounding"
    claims = {p.numerics for p in plan.passes if p.name in effective}
    return next((kind for kind in ("approximate", "rounding") if kind in claims), "bitwise")
