"""Find elements that are NaN or infinite in the reference (the original model) only with, or only
without, onnxruntime's optimizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, closes_runners
from fusionc.verify.model_file import ModelFile
from fusionc.verify.order_dependence import Reach, farther
from fusionc.verify.seeding import random_nodes


class OptimizerDependence:
    """Runs the reference with onnxruntime's basic optimizers on.

    These optimizers fold constants, as fusionc does, and onnxruntime multiplies by a constant
    matrix in another way than by a computed one. On inputs that are not finite, one way may give
    NaN and the other infinity. If that happens in the reference itself, such an input proves
    nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @closes_runners
    def reaches(
        self, feeds: Feeds, outputs: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> list[Reach | None]:
        """The given `reaches`, with infinity for each element that is NaN or infinite with or
        without the optimizers, and of another kind in the other run. `outputs` are those without
        the optimizers.
        """
        reference = ModelFile(self._path)
        try:
            if random_nodes(reference.proto()):
                return list(reaches)
            others = reference.runner("basic").run(feeds)
        except RunError:
            return list(reaches)
        moved = [_moved_places(*pair) for pair in zip(outputs, others, strict=True)]
        return [farther(*pair) for pair in zip(reaches, moved, strict=True)]


def _moved_places(value: Any, other: Any) -> Reach | None:
    if (
        not isinstance(value, np.ndarray)
        or not isinstance(other, np.ndarray)
        or value.dtype.kind != "f"
    ):
        return None
    if value.shape != other.shape:
        return None
    return np.where(_kinds(value) != _kinds(other), np.inf, 0.0)


def _kinds(values: NDArray[Any]) -> NDArray[np.int64]:
    """The kind of each element: 0 for finite numbers, other codes for NaN and the infinities."""
    return np.asarray(np.isnan(values) + 2 * np.isposinf(values) + 3 * np.isneginf(values))
