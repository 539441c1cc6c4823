"""Check that the outputs of a model stay right if some of onnxruntime's optimizers are switched
off.

This is necessary because an optimizer that stays on may be faulty. With all optimizers on, the
fault may not show, because one of the others has rewritten the nodes where it would show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fusionc.bench.deployed_model import DeployedModel
from fusionc.verify import verify

_LEVEL = "all"


def changed_answers(
    model: DeployedModel,
    shapes: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
    progress: Callable[[str], None],
) -> str:
    """How the outputs of a model change if the optimizers that its settings name are switched off,
    as a clause. "" if the outputs stay right. Also "" if they are equally wrong with all optimizers
    on, because then the switched-off optimizers are not the cause.

    `shapes` and `inputs` mean the same as for a verification. Raises FusioncError if the memory
    does not suffice.
    """
    verification = verify(
        model.file,
        model.file,
        input_shape=shapes,
        inputs=inputs,
        kernels=model.kernels,
        nonfinite=False,
        levels=(_LEVEL,),
        optimizers_off=model.settings.disabled_optimizers,
        progress=progress,
    )
    changed = next(
        (fault.difference for fault in verification.optimizer_faults if not fault.is_in_reference),
        None,
    )
    if changed is not None:
        return f"the answers change ({changed})"
    if verification.status != "equal" or _LEVEL in verification.unchecked_levels:
        summary = verification.summary.replace(str(model.file), "the model")
        return f"the answers cannot be checked ({summary})"
    return ""
