"""How far the outputs of a model are from those of another model, over many samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusionc.verify.compare import as_float64, same_bits, scale_of


@dataclass(frozen=True)
class OutputErrors:
    """How far one output of the candidate (the optimized model), at one level of onnxruntime's
    optimizers, is from the same output of the reference (the original model).

    `max_abs` is the largest |a - b|; `worst` is its sample and its place in the output. `max_rel`
    is the largest |a - b| / |b| of elements that are not tiny compared to the largest one. `cosine`
    is the lowest cosine of a sample. Elements that are not finite are left out. In outputs of text,
    each element that differs counts as an error of 1.
    """

    output: str
    level: str
    samples: int
    max_abs: float
    max_rel: float
    cosine: float
    worst: str

    def as_json(self) -> dict[str, Any]:
        """The errors as plain data. Numbers that are not finite are None."""
        plain = asdict(self)
        return {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in plain.items()
        }


_TINY = 1e-3  # compared to the largest element


class ErrorTable:
    """Collects the errors of every output at one level of onnxruntime's optimizers."""

    def __init__(self, level: str) -> None:
        self._level = level
        self._rows: dict[str, OutputErrors] = {}

    def add(
        self, names: Sequence[str], label: str, ours: Sequence[Any], theirs: Sequence[Any]
    ) -> None:
        """Add a sample: the outputs of the reference and of the candidate."""
        for name, one, other in zip(names, ours, theirs, strict=True):
            row = self._rows.get(name) or OutputErrors(name, self._level, 0, 0.0, 0.0, 1.0, "")
            max_abs = row.max_abs
            max_rel = row.max_rel
            cosine = row.cosine
            place = row.worst
            for index, a, b in _pairs(one, other):
                found = _errors(a, b)
                if found is None:
                    continue
                if found[0] > max_abs:
                    max_abs = found[0]
                    place = f"{label}: {index}{list(found[3])}"
                max_rel = max(max_rel, found[1])
                cosine = min(cosine, found[2])
            self._rows[name] = OutputErrors(
                name, self._level, row.samples + 1, max_abs, max_rel, cosine, place
            )

    def rows(self) -> tuple[OutputErrors, ...]:
        """The errors of each output, in the order of the model."""
        return tuple(self._rows.values())


def _pairs(ours: Any, theirs: Any) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """The tensors in two values, each with its place in them. Nothing if the structures differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        ours = list(ours.values())
        theirs = list(theirs.values())
    if isinstance(ours, list) and isinstance(theirs, list):
        for number, pair in enumerate(zip(ours, theirs, strict=False)):
            yield from ((f"element {number} {index}", a, b) for index, a, b in _pairs(*pair))
    elif ours is not None and theirs is not None:
        a = np.asarray(ours)
        b = np.asarray(theirs)
        if a.shape == b.shape and a.dtype == b.dtype and a.size:
            yield "", a, b


def _errors(b: NDArray[Any], a: NDArray[Any]) -> tuple[float, float, float, tuple[int, ...]] | None:
    """The largest absolute error, the largest relative error, the cosine, and the place of the
    largest absolute error. `b` is the reference. None if there is nothing to measure.
    """
    if b.dtype.kind != "O" and same_bits(b, a):
        return None
    if b.dtype.kind in "OUS":
        x = np.zeros(b.shape)
        y = np.asarray(a != b, np.float64)
    else:
        x = as_float64(b)
        y = as_float64(a)
    finite = np.isfinite(x) & np.isfinite(y)
    x = np.where(finite, x, 0.0)
    y = np.where(finite, y, 0.0)
    error = np.abs(y - x)
    worst = int(error.argmax())
    if not error.flat[worst]:
        return None
    largest = scale_of(x, b.dtype.name)
    counted = np.abs(x) > _TINY * largest
    with np.errstate(all="ignore"):
        relative = float((error / np.abs(x)).max(initial=0.0, where=counted))
        scale = max(largest, float(np.abs(y).max())) or 1.0
        # scaled, because squares of large numbers overflow
        one = x / scale
        other = y / scale
        cosine = float((one * other).sum() / np.sqrt((one * one).sum() * (other * other).sum()))
    place = tuple(int(i) for i in np.unravel_index(worst, error.shape))
    return float(error.flat[worst]), relative, cosine if np.isfinite(cosine) else 0.0, place
