"""Optimizers of onnxruntime change no answers, but for their faults, and one may hide those of
another.
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
    """What becomes of the answers of a model without the optimizers that its settings switch off,
    in words; nothing where they are right, or as wrong with all optimizers.

    `shapes` and `inputs` are those of a verification. Raises FusioncError where there is not enough
    memory.
    """
    found = verify(
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
        (fault.difference for fault in found.optimizer_faults if not fault.is_in_reference), None
    )
    if changed is not None:
        return f"the answers change ({changed})"
    if found.status != "equal" or _LEVEL in found.unchecked_levels:
        return (
            f"the answers cannot be checked ({found.summary.replace(str(model.file), 'the model')})"
        )
    return ""
