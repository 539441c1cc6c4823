"""The times of the operators before and after the conversion."""

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

_ROUNDS = 2  # in turn; the faster one counts, as other programs only make a run slower
_ENOUGH = 15.0  # seconds; after that, one round is enough


@dataclass(frozen=True)
class MeasuredTimes:
    """Profiles of both models on the same inputs."""

    before: Profile | None = None
    after: Profile | None = None
    label: str = ""  # of the inputs
    failure: str = ""  # the reason if profiles are missing
    # the relative difference of two measurements of one model; 0 if there was one measurement
    noise: float = 0.0


@closes_runners
def measured_times(
    before: Path,
    after: Path,
    kernels: Path | None,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
) -> MeasuredTimes:
    """Run both model files, the second with its library of kernels, on the first of `inputs`, or on
    random ones.
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
    ) as error:  # given inputs that do not fit, if nothing was verified
        return MeasuredTimes(failure=error.what if isinstance(error, UsageError) else str(error))
    ours, theirs = (
        sorted(found, key=lambda one: one.seconds) for found in zip(*rounds, strict=True)
    )
    noise = max(found[-1].seconds / found[0].seconds - 1 for found in (ours, theirs))
    return MeasuredTimes(ours[0], theirs[0], sample.label, noise=noise)
