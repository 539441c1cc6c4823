"""Measure how much the reference (the original model) amplifies rounding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.model.tensors import byte_size, to_array
from fusionc.protos import tensors_of
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, Runner
from fusionc.verify.compare import unequal
from fusionc.verify.model_file import LARGEST_COPY, light_model
from fusionc.verify.order_dependence import Reach
from fusionc.verify.seeding import seeded_runner

_SMALL_MODEL = 32 << 20  # bytes
_DRAWS = 8
# additional ways to move the weights, and draws for each of them
_OTHER_WEIGHTS = 3
_OTHER_DRAWS = 4
# the largest move, in units in the last place; a hundredth of the tolerance of float32 outputs
_FARTHEST = 33


class Conditioning:
    """Runs the reference after moving every weight and input by at most one unit in the last place:
    tensors of float16, float32 and float64, in initializers and in attributes of nodes.

    A rewrite that only rounds differently, such as folding a scale into weights, moves weights by
    that much. If a model turns this into large differences of its outputs, those differences prove
    nothing about the rewrite.
    """

    def __init__(self, path: Path, reference: Runner) -> None:
        self._path = path
        self._reference = reference
        # the runner for each way of moving the weights; None if they cannot be moved
        self._moved: dict[int, Runner | None] = {}
        self._is_small = False  # whether all ways may have a session at once

    def draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs of the reference on `feeds` for each way of moving weights and inputs."""
        for draw in range(_DRAWS):
            yield from self._run(moved_feeds(feeds, draw))

    def far_draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs for inputs that are moved by more and more units in the last place. Small
        moves may miss a step, such as that of Floor: all numbers near an input may round to one
        side of the step, while the rewrite rounds to the other side.
        """
        for places in range(2, _FARTHEST + 1):
            yield from self._run(moved_feeds(feeds, _DRAWS + places, places))

    def other_draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs for other ways of moving the weights. If a model amplifies rounding, each way
        affects other elements.

        A large model is in memory in only one way at a time.
        """
        try:
            for way in range(1, 1 + _OTHER_WEIGHTS):
                if (runner := self._way(way)) is None:
                    return
                for draw in range(_OTHER_DRAWS):
                    with suppress(RunError):
                        yield runner.run(moved_feeds(feeds, draw))
        finally:
            self._make_room(0)

    def _run(self, feeds: Feeds) -> Iterator[list[Any]]:
        with suppress(RunError):
            yield (self._way(0) or self._reference).run(feeds)

    def _way(self, way: int) -> Runner | None:
        """A runner of the reference with weights moved in this way; None if the weights cannot be
        moved.
        """
        self._make_room(way)
        if way not in self._moved:
            try:
                self._moved[way] = self._with_moved_weights(way)
            except (RunError, OSError, ValueError):  # for example, data in files that are gone
                self._moved[way] = None
        return self._moved[way]

    def _make_room(self, way: int) -> None:
        """Close the sessions of other ways, unless all of them are small. Any way except the first
        gets a new session each time.
        """
        for other, runner in list(self._moved.items()):
            if other != way and runner is not None and not self._is_small:
                runner.close()
                if other:
                    del self._moved[other]

    def _with_moved_weights(self, seed: int) -> Runner | None:
        model, folder = light_model(self._path)
        size = sum(map(byte_size, tensors_of(model)))
        self._is_small = size <= _SMALL_MODEL
        if size > LARGEST_COPY:
            return None
        rng = np.random.default_rng(seed)
        for tensor in tensors_of(model):
            if tensor.data_type in (
                onnx.TensorProto.FLOAT,
                onnx.TensorProto.FLOAT16,
                onnx.TensorProto.DOUBLE,
            ):
                array = to_array(tensor, os.fspath(folder))
                tensor.CopyFrom(onnx.numpy_helper.from_array(_moved(array, rng), tensor.name))
        return seeded_runner(model, folder)


def moved_feeds(feeds: Feeds, draw: int, places: int = 1) -> dict[str, Any]:
    """Inputs in which each float is moved down or up by `places` units in the last place, or not at
    all. Each draw moves them differently.
    """
    rng = np.random.default_rng(draw)
    return {name: _moved_value(value, rng, places) for name, value in feeds.items()}


def _moved_value(value: Any, rng: np.random.Generator, places: int = 1) -> Any:
    if isinstance(value, list):
        return [_moved_value(item, rng, places) for item in value]
    return (
        _moved(value, rng, places)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
    )


def _moved(values: NDArray[Any], rng: np.random.Generator, places: int = 1) -> NDArray[Any]:
    """The values, each moved down or up by `places` units in the last place, or not at all.

    Multiples of 1/16 are not moved, because exponents, factors and counts in formulas are such
    numbers, and are exact. In float16 this includes all numbers above 64.
    """
    direction = rng.choice(np.array([-np.inf, np.inf, np.nan], values.dtype), values.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = values
        goal = np.where(np.isnan(direction), values, direction)
        for _ in range(places):
            moved = np.nextafter(moved, goal)
        exact = np.rint(values * 16) == values * 16
    return np.asarray(np.where(exact | ~np.isfinite(values), values, moved), values.dtype)


def steps(reference: Any, candidate: Any, moved: Any, reach: Reach | None = None) -> Reach | None:
    """Infinity for elements in which the candidate agrees only with the moved reference, and 0 for
    all others. For the former, an input or a weight lies on a step, such as that of Floor, so they
    prove nothing. None unless the three values are arrays of the same shape.

    Elements that the model does not determine (with an infinite reach) may have any value. They do
    not count for the scale of the other elements.
    """
    values = (reference, candidate, moved)
    if (
        not all(isinstance(value, np.ndarray) for value in values)
        or len({value.shape for value in values}) > 1
    ):
        return None
    if reach is not None and reach.shape == reference.shape and reference.dtype.kind == "f":
        is_open = np.isinf(reach)
        reference, candidate, moved = (np.where(is_open, np.zeros((), v.dtype), v) for v in values)
    return np.where(unequal(reference, candidate) & ~unequal(moved, candidate), np.inf, 0.0)
