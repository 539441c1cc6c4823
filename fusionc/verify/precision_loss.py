"""The loss from a lower precision: the largest difference of each output from the reference (the
original model), divided by the reference's largest value, and the cosine between both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.model_file import ModelFile
from fusionc.verify.reference import MOST_KEPT, Reference, bytes_of

LEAST_COSINE = 0.999
_DRAWN = 4  # samples, if the caller gives no inputs


@dataclass(frozen=True)
class PrecisionLoss:
    """The worst loss of one output over all samples."""

    output: str
    distance: float = 0.0  # the largest difference, divided by the largest value
    cosine: float = 1.0

    def worst(self, other: PrecisionLoss) -> PrecisionLoss:
        """For each number, the worse of two losses."""
        return PrecisionLoss(
            self.output, max(self.distance, other.distance), min(self.cosine, other.cosine)
        )

    def is_within(self, bound: float | None) -> bool:
        """Whether the distance is within the bound. If the bound is None, the cosine decides."""
        return self.cosine >= LEAST_COSINE if bound is None else self.distance <= bound

    def __str__(self) -> str:
        return f"{self.output} {self.distance:.2g} (cosine {self.cosine:.6f})"


@dataclass(frozen=True)
class PrecisionLosses:
    """The losses of all outputs, and the number of samples on which they were measured."""

    samples: int
    outputs: tuple[PrecisionLoss, ...]
    bound: float | None  # the limit for the distance
    fault: str = ""  # why the candidate does not run

    @property
    def is_within(self) -> bool:
        return not self.fault and all(loss.is_within(self.bound) for loss in self.outputs)

    @property
    def worst(self) -> PrecisionLoss | None:
        """The output with the largest loss."""
        return max(self.outputs, key=lambda loss: (loss.distance, -loss.cosine), default=None)

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        limit = f"cosine {LEAST_COSINE}" if self.bound is None else f"{self.bound:g}"
        how = "within" if self.is_within else "beyond"
        return (
            f"{how} the bound ({limit}) on {self.samples} samples, largest difference over the "
            f"largest value: {self.worst}"
        )


@closes_runners
def precision_losses(
    reference: Path,
    candidate: Path,
    kernels: Path,
    bound: float | None,
    *,
    input_shape: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Path | None = None,
    elements: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PrecisionLosses:
    """The losses of a candidate with kernels, compared with the reference, on the caller's inputs,
    or on drawn ones if the caller gives none. Raises the errors of Reference.
    """
    samples = ReferenceSamples(Reference(reference, input_shape, inputs, elements=elements))
    theirs = ModelFile(candidate, kernels)
    return losses_on(samples, theirs, bound, "bfloat16", progress=progress)


class ReferenceSamples:
    """The caller's samples, or a few drawn ones without NaN and infinities if the caller gives
    none, with the outputs of the reference. Small samples are kept, so that the reference runs only
    once on each.
    """

    def __init__(self, ours: Reference) -> None:
        self._ours = ours
        self._kept: list[Sample] | None = None

    def __iter__(self) -> Iterator[Sample]:
        if self._kept is not None:
            yield from self._kept
            return
        kept = list[Sample]()
        room = MOST_KEPT
        for sample in self._samples():
            room -= bytes_of(sample)
            if room >= 0:
                kept.append(sample)
            yield sample
        self._kept = kept if room >= 0 else None

    def _samples(self) -> Iterator[Sample]:
        if self._ours.given:
            return self._ours.given.samples()
        ordinary = (sample for sample in self._ours.drawn(nonfinite=False) if not sample.edge)
        return islice(ordinary, _DRAWN)


@closes_runners
def losses_on(
    samples: Iterable[Sample],
    candidate: ModelFile,
    bound: float | None,
    precision: str,
    level: str = "disabled",
    progress: Callable[[str], None] = lambda _: None,
) -> PrecisionLosses:
    """The losses of a candidate in a lower precision on samples with the outputs of the reference.
    onnxruntime optimizes the candidate at this `level`.
    """
    losses = dict[str, PrecisionLoss]()
    count = 0
    try:
        theirs = candidate.runner(level)
        for sample in samples:
            progress(f"what {precision} costs on {sample.label}")
            pairs = zip(sample.outputs, theirs.run(sample.feeds), strict=True)
            for name, (right, made) in zip(theirs.outputs, pairs, strict=True):
                loss = loss_of(name, right, made)
                losses[name] = losses.get(name, loss).worst(loss)
            count += 1
    except RunError as error:
        what = "the result" if candidate.kernels is None else "the result with its kernels"
        fault = f"onnxruntime cannot run {what}: {error}"
        return PrecisionLosses(count, tuple(losses.values()), bound, fault)
    return PrecisionLosses(count, tuple(losses.values()), bound)


def loss_of(name: str, right: Any, made: Any) -> PrecisionLoss:
    """The loss of one output. The distance is infinite if an element is finite in only one of the
    values.
    """
    ours = _numbers(right)
    theirs = _numbers(made)
    if ours is None or theirs is None:
        return PrecisionLoss(name)
    if ours.shape != theirs.shape:
        return PrecisionLoss(name, inf, -1.0)
    finite = np.isfinite(ours)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return PrecisionLoss(name, inf, -1.0)
    a = ours[finite]
    b = theirs[finite]
    if not np.isfinite(b).all():
        return PrecisionLoss(name, inf, -1.0)
    largest = float(np.abs(a).max(initial=0.0))
    distance = float(np.abs(a - b).max(initial=0.0))
    return PrecisionLoss(name, _share(distance, largest), _cosine(a, b))


def _share(distance: float, largest: float) -> float:
    if not distance:
        return 0.0
    return distance / largest if largest else inf


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if np.array_equal(a, b):
        return 1.0
    scale = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    one = a / scale
    other = b / scale
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return min(1.0, float(one @ other) / lengths) if lengths else 0.0


def _numbers(value: Any) -> NDArray[np.float64] | None:
    """A tensor of numbers as one row; None for other values."""
    if isinstance(value, Sequence) or not hasattr(value, "dtype"):
        return None
    array = np.asarray(value)
    is_number = array.dtype.kind in "fiub" or array.dtype.name == "bfloat16"
    return array.astype(np.float64).ravel() if is_number else None
