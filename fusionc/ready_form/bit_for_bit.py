"""Does the ready form of a model compute what the model does in onnxruntime at its default level,
to the last bit?

It is the same graph with the same kernels, so that nothing is rounded otherwise. Where onnxruntime
does not give the same twice for the model itself (random numbers, memory that nobody wrote), there
is nothing to compare. There is one session at a time: of what the model gives a hash is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.search import InputSearch

_SEEDS = (0, 1)  # two sizes of each dynamic dimension


@closes_runners
def bit_for_bit(
    model: Path,
    ready: Path,
    kernels: Path | None,
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Path | None,
) -> tuple[int, str]:
    """On how many samples they were the same, and what was different; empty where nothing was.

    The samples are those of verification: of `inputs`, and drawn ones with these shapes. Raises
    RunError where onnxruntime cannot load the model.
    """
    proto = onnx.load(model, load_external_data=False)
    reference = Runner(model, kernels=kernels, level="all")
    given = GivenSamples(None if inputs is None else GivenValues(inputs), proto, reference)
    search = InputSearch(reference, proto, model.parent, shapes)
    del proto
    samples = chain(given.samples(), search.samples(_SEEDS, nonfinite=True))
    wanted = [(sample.label, sample.feeds, _bits(sample.outputs)) for sample in samples]
    reference.close()
    runs = 0
    try:
        other = Runner(ready, kernels=kernels)
        unlike = [
            (label, feeds, bits) for label, feeds, bits in wanted if _bits(other.run(feeds)) != bits
        ]
        other.close()
        runs = len(wanted) - len(unlike)
        for label, feeds, bits in unlike:
            # Twice: a session that is new draws the same random numbers again, and then others.
            if _bits(reference.run(feeds)) == bits == _bits(reference.run(feeds)):
                return runs, f"it computes something else than the model: {label}"
    except RunError as error:
        return runs, f"onnxruntime cannot run it: {error}"
    return runs, ""


def _bits(value: Any) -> str:
    """A hash of what an output holds."""
    if isinstance(value, list):
        parts = [_bits(item) for item in value]
    elif isinstance(value, dict):
        parts = [_bits([key, item]) for key, item in value.items()]
    elif isinstance(value, np.ndarray):
        content = repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
        parts = [str(value.dtype), str(value.shape), hashlib.sha256(content).hexdigest()]
    else:
        parts = [repr(value)]
    return hashlib.sha256(" ".join([type(value).__name__, *parts]).encode()).hexdigest()
