"""Settings are about time; onnxruntime's optimizers have faults, though, which another one may have hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fusionc.measurement.deployed_model import DeployedModel
from fusionc.verify import verify


def changed_answers(
    model: DeployedModel,
    shapes: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
    progress: Callable[[str], None],
) -> str:
    """What of the outputs is another without the optimizers that the settings of a model switch off; nothing where
    these are right, or are wrong with all optimizers as well.

    `shapes` and `inputs` are those of a verification. Raises FusioncError where there is not enough memory.
    """
    check = partial(
        verify, model.file, model.file, input_shape=shapes, inputs=inputs, seeds=(0,), kernels=model.kernels,
        levels=("all",), progress=progress,
    )  # fmt: skip
    found = check(optimizers_off=model.settings.disabled_optimizers).optimizer_faults
    return "" if not found or check().optimizer_faults else str(found[0].difference)
