"""Inputs for measuring a model: the caller's first sample, or the first drawn sample on which the
model runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import onnx

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import InputSearch
from fusionc.verify.model_file import light_model


def first_sample(
    path: Path, input_shape: Mapping[str, tuple[int, ...]] | None, inputs: Path | None
) -> Sample:
    """A sample for the model in this file. Raises RunError if the model runs on no sample, and
    UsageError if the caller's inputs do not fit.
    """
    model, folder = light_model(path)
    return first_sample_of(Runner(path), model, folder, input_shape, inputs)


def first_sample_of(
    runner: Runner,
    model: onnx.ModelProto,
    folder: Path,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
) -> Sample:
    """The first sample for a model in memory that has its weights in `folder`. `runner` runs the
    model, and is closed here. Raises RunError and UsageError as `first_sample` does.
    """
    try:
        given = GivenSamples(None if inputs is None else GivenValues(inputs), model, runner)
        search = InputSearch(runner, model, folder, input_shape or {})
        sample = next(chain(given.samples(), search.samples((0,), False)), None)
    finally:
        runner.close()
    if sample is None:
        raise RunError(search.first_error or search.not_drawn)
    return sample
