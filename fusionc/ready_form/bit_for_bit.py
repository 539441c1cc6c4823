"""Compare the results of the ready form of a model bit for bit with those of the model. The ready
form is the model as onnxruntime has optimized it; the model runs in onnxruntime with all optimizers
on.

Both are the same graph with the same kernels, so even the rounding must be the same. A sample is
ignored if the model itself gives different results in two runs, because of random numbers or
uninitialized memory. To save memory, only one session is open at a time, and the model's outputs
are kept as hashes.
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

_SEEDS = (0, 1)  # each seed chooses another size for dynamic dimensions


@closes_runners
def bit_for_bit(
    model: Path,
    ready: Path,
    kernels: Path | None,
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Path | None,
) -> tuple[int, str]:
    """The number of samples with equal results, and a description of the first difference. The
    description is empty if all results are equal.

    The samples are those of a verification: the samples in `inputs`, and random samples of these
    shapes. Raises RunError if onnxruntime cannot load the model.
    """
    proto = onnx.load(model, load_external_data=False)
    reference = Runner(model, kernels=kernels, level="all")
    user_samples = GivenSamples(None if inputs is None else GivenValues(inputs), proto, reference)
    search = InputSearch(reference, proto, model.parent, shapes)
    del proto
    samples = chain(user_samples.samples(), search.samples(_SEEDS, nonfinite=True))
    expected = [(sample.label, sample.feeds, _bits(sample.outputs)) for sample in samples]
    reference.close()
    runs = 0
    try:
        other = Runner(ready, kernels=kernels)
        unequal = [
            (label, feeds, bits)
            for label, feeds, bits in expected
            if _bits(other.run(feeds)) != bits
        ]
        other.close()
        runs = len(expected) - len(unequal)
        for label, feeds, bits in unequal:
            # Run twice, because the first run of a new session repeats the same random numbers.
            if _bits(reference.run(feeds)) == bits == _bits(reference.run(feeds)):
                return runs, f"its results differ from those of the model: {label}"
    except RunError as error:
        return runs, f"onnxruntime cannot run it: {error}"
    return runs, ""


def _bits(value: Any) -> str:
    """A hash of the type, shape and elements of an output."""
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
