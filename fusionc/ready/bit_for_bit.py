"""Does the ready form of a model compute what the model does in onnxruntime at its default level, to the last bit?

It is the same graph with the same kernels, so that nothing is rounded otherwise. Where onnxruntime does not give the
same twice for the model itself (random numbers, memory that nobody wrote), there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.runtime.wire import Raw
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.search import InputSearch

_SEEDS = (0, 1)  # two sizes of each dynamic dimension


@closes_runners
def bit_for_bit(
    model: Path, ready: Path, kernels: Path | None, shapes: Mapping[str, tuple[int, ...]], inputs: Path | None
) -> tuple[int, str]:
    """On how many samples they were the same, and what was different; empty where nothing was.

    The samples are those of verification: of `inputs`, and drawn ones with these shapes.
    """
    proto = onnx.load(model, load_external_data=False)
    reference = Runner(model, kernels=kernels, level="all")
    given = GivenSamples(None if inputs is None else GivenValues(inputs), proto, reference)
    search = InputSearch(reference, proto, model.parent, shapes)
    runs = 0
    try:
        other = Runner(ready, kernels=kernels)
        for sample in chain(given.samples(), search.samples(_SEEDS, nonfinite=True)):
            outputs = other.run(sample.feeds)
            if _is_same(outputs, sample.outputs):
                runs += 1
                continue
            again = Runner(model, kernels=kernels, level="all")
            is_steady = _is_same(again.run(sample.feeds), sample.outputs)
            again.close()
            if is_steady:
                return runs, f"it computes something else than the model: {sample.label}"
    except RunError as error:
        return runs, f"onnxruntime cannot run it: {error}"
    return runs, ""


def _is_same(value: Any, other: Any) -> bool:
    if type(value) is not type(other):
        return False
    if isinstance(value, Raw):
        return value.shape == other.shape and _is_same(value.data, other.data)
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if isinstance(value, dict):
        return list(value) == list(other) and all(map(_is_same, value.values(), other.values()))
    if isinstance(value, np.ndarray):
        if value.dtype != other.dtype or value.shape != other.shape:
            return False
        return list(value.flat) == list(other.flat) if value.dtype.hasobject else value.tobytes() == other.tobytes()
    return bool(value == other or value != value)
