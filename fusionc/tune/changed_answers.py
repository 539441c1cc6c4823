"""Check that the outputs of a model stay right if optimizers of onnxruntime are switched off. A
faulty optimizer changes outputs, and another optimizer may hide this fault.
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
    """How the outputs of a model change if the optimizers in its settings are switched off. "" if
    the outputs are right, or if they are equally wrong with all optimizers on.

    `shapes` and `inputs` are those of a verification. Raises FusioncError if memory is short.
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
