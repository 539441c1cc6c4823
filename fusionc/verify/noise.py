"""How much the reference itself amplifies rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.model.tensors import byte_size
from fusionc.runtime.errors import RunError
from fusionc.runtime.runner import Feeds, Runner
from fusionc.verify.compare import largest_difference
from fusionc.verify.seeding import seeded_runner
from fusionc.verify.undecided import Reach, settled

_LARGEST_MODEL = 1_500_000_000  # bytes; a larger model is not copied to move its weights
_DRAWS = 3


class Noise:
    """Runs the reference with every weight and input moved by at most one unit in the last place.

    A rewrite that only rounds differently, such as folding a scale into weights, moves weights that much. Where a
    model turns it into large differences of its outputs, those differences say nothing about the rewrite.
    """

    def __init__(self, path: Path, reference: Runner) -> None:
        self._path, self._reference = path, reference
        self._moved: Runner | None = None

    def measure(self, feeds: Feeds, outputs: Sequence[Any], reaches: Sequence[Reach | None]) -> dict[str, float]:
        """The largest change of each output, given the values that the reference computes on `feeds`, where
        it goes farther than other orders of reductions reach."""
        largest = dict.fromkeys(self._reference.outputs, 0.0)
        runner = self._moved = self._moved or self._with_moved_weights()
        for draw in range(_DRAWS):
            rng = np.random.default_rng(draw)
            moved = {name: _moved_value(value, rng) for name, value in feeds.items()}
            try:
                found = runner.run(moved)
            except RunError:
                continue
            for name, value, other, reach in zip(largest, outputs, found, reaches, strict=True):
                largest[name] = max(largest[name], largest_difference(*settled(value, other, reach)))
        return largest

    def _with_moved_weights(self) -> Runner:
        model = onnx.load(self._path, load_external_data=False)
        size = sum(map(byte_size, model.graph.initializer))
        if size > _LARGEST_MODEL:
            return self._reference
        onnx.external_data_helper.load_external_data_for_model(model, str(self._path.parent))
        rng = np.random.default_rng(0)
        for tensor in model.graph.initializer:
            if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE):
                tensor.CopyFrom(
                    onnx.numpy_helper.from_array(_moved(onnx.numpy_helper.to_array(tensor), rng), tensor.name)
                )
        try:
            return seeded_runner(model)
        except RunError:
            return self._reference


def _moved_value(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, list):
        return [_moved_value(item, rng) for item in value]
    return _moved(value, rng) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def _moved(values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The values with each moved one place down, up or not at all.

    Multiples of 1/16 stay: exponents, factors and counts in a formula, which are exact, are such values.
    """
    direction = rng.choice(np.array([-np.inf, np.inf, np.nan], values.dtype), values.shape)
    moved = np.nextafter(values, np.where(np.isnan(direction), values, direction))
    with np.errstate(invalid="ignore", over="ignore"):
        exact = np.rint(values * 16) == values * 16
    return np.asarray(np.where(exact | ~np.isfinite(values), values, moved), values.dtype)


def excused(errors: Mapping[str, float], noise: Mapping[str, float]) -> bool:
    """Are all errors of about the size of the noise?"""
    return all(error <= 4 * noise[name] for name, error in errors.items())
