"""Check that the outputs of a model stay right if some optimizers of onnxruntime are switched
off.

An optimizer that stays on may have a fault that shows only then: with all optimizers on, one of the
others may have rewritten the nodes at which the fault would show.
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
    """How the outputs of a model change if the optimizers that its settings name are switched off.
    "" if the outputs stay right, and also if they are just as wrong with all optimizers on, because
    switching optimizers off is then not the cause.

    `shapes` and `inputs` mean the same as for a verification. Raises FusioncError if memory is
    short.
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
