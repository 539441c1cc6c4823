"""Verify a result at each size of --dynamic_batch_size, --dynamic_image_size or --dynamic_dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fusionc.errors import UsageError
from fusionc.verify.result import IN_PART, Verification

Shapes = Mapping[str, tuple[int, ...]]  # of inputs, by name


def at_each_profile(
    verification: Verification,
    checks: Sequence[Callable[..., Verification]],
    profiles: Sequence[Shapes],
    option: str,
    total: int,
) -> Verification:
    """The verification, continued with one sample at each of these sizes. The option gives `total`
    sizes: these, and the size of the verification so far, unless the user chose another one for it.
    Each of `checks` verifies the result: one without kernels and, if the result has kernels,
    another one with them.

    Raises UsageError if the model does not run at one of the sizes.
    """
    left_out = list[str]()
    for shapes in profiles:
        for check in checks:
            one = check(
                input_shape=shapes, seeds=(0,), levels=(), nonfinite=False, inputs=None, ahead=None
            )
            if one.status == "different":
                return replace(one, summary=f"at {_text(shapes)} {one.summary}")
            if one.is_refused:
                what = f"the model does not run at {_text(shapes)}: {one.summary}"
                hint = "leave this profile out, or export the model with these dimensions dynamic"
                raise UsageError(what, where=option, hint=hint, code="E10001")
            if one.status == "impossible":
                left_out.append(f"{_text(shapes)} is not verified: {one.summary}")
            verification = replace(verification, runs=verification.runs + one.runs)
    reached = f"{total - len(left_out)} of the" if left_out else "each of the"
    equal = f"equal at {reached} {total} sizes of {option}"
    summary = "; ".join([verification.summary.removeprefix(IN_PART), equal, *left_out])
    budget = verification.budget
    if budget is not None and left_out:
        budget = replace(budget, left_out=[*budget.left_out, *left_out])
    done = replace(verification, budget=budget)
    return replace(done, summary=(IN_PART if done.is_in_part else "") + summary)


def _text(shapes: Shapes) -> str:
    return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items())
