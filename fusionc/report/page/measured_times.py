"""The times of the operators before and after, on inputs on which the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import onnx

from fusionc.errors import UsageError
from fusionc.protos import nodes_of
from fusionc.runtime.process import insist
from fusionc.runtime.profile import Profile, profile
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.verify.first_sample import first_sample

_ROUNDS = 2  # in turn, of which the faster one counts: other programs only make it slower
_ENOUGH = 15.0  # seconds, after which one round has to do


@dataclass(frozen=True)
class MeasuredTimes:
    """Profiles of both models on the same inputs, `label` says which; None with `failure`, which
    says why.

    `noise` is by how much two measurements of the same model differed, as a part of it; 0 where
    there was one.
    """

    before: Profile | None = None
    after: Profile | None = None
    label: str = ""
    failure: str = ""
    noise: float = 0.0


@closes_runners
def measured_times(
    before: Path,
    after: Path,
    kernels: Path | None,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
) -> MeasuredTimes:
    """Run both model files, the second one with its library of kernels, on the first of `inputs`,
    or on drawn ones.
    """
    model, other = (onnx.load(path, load_external_data=False) for path in (before, after))
    try:
        sample = first_sample(before, input_shape, inputs)
        sizes = [sum(1 for _ in nodes_of(proto)) for proto in (model, other)]
        rounds: list[tuple[Profile, Profile]] = []
        began = perf_counter()
        while len(rounds) < _ROUNDS and (not rounds or perf_counter() - began < _ENOUGH):
            first = insist(lambda: profile(before, sample.feeds, sizes[0]))
            rounds.append((first, insist(lambda: profile(after, sample.feeds, sizes[1], kernels))))
    except (
        RunError,
        UsageError,
    ) as error:  # inputs that were given and do not fit, where nothing was verified
        return MeasuredTimes(failure=error.what if isinstance(error, UsageError) else str(error))
    ours, theirs = (
        sorted(found, key=lambda one: one.seconds) for found in zip(*rounds, strict=True)
    )
    noise = max(found[-1].seconds / found[0].seconds - 1 for found in (ours, theirs))
    return MeasuredTimes(ours[0], theirs[0], sample.label, noise=noise)
