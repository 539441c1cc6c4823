"""Measure the times of the operators before and after the conversion."""

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

# Each round profiles both models in turn. The faster round counts, because other programs only make
# a round slower.
_ROUNDS = 2
_TIME_LIMIT = 15.0  # seconds after which no further round begins


@dataclass(frozen=True)
class MeasuredTimes:
    """Profiles of both models on the same inputs."""

    before: Profile | None = None
    after: Profile | None = None
    label: str = ""  # a description of the inputs
    failure: str = ""  # why profiles are missing; empty if they exist
    # the relative difference between two rounds of the same model; 0 after a single round
    noise: float = 0.0


@closes_runners
def measured_times(
    before: Path,
    after: Path,
    kernels: Path | None,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
) -> MeasuredTimes:
    """Profile both model files on the first sample of `inputs`, or on random inputs. The second
    model uses the library `kernels`.
    """
    model, other = (onnx.load(path, load_external_data=False) for path in (before, after))
    try:
        sample = first_sample(before, input_shape, inputs)
        sizes = [sum(1 for _ in nodes_of(proto)) for proto in (model, other)]
        rounds: list[tuple[Profile, Profile]] = []
        began = perf_counter()
        while len(rounds) < _ROUNDS and (not rounds or perf_counter() - began < _TIME_LIMIT):
            first = insist(lambda: profile(before, sample.feeds, sizes[0]))
            rounds.append((first, insist(lambda: profile(after, sample.feeds, sizes[1], kernels))))
    # UsageError: the user's inputs do not fit. If a verification ran, it has noticed that before.
    except (RunError, UsageError) as error:
        return MeasuredTimes(failure=error.what if isinstance(error, UsageError) else str(error))
    old, new = (
        sorted(profiles, key=lambda one: one.seconds) for profiles in zip(*rounds, strict=True)
    )
    noise = max(profiles[-1].seconds / profiles[0].seconds - 1 for profiles in (old, new))
    return MeasuredTimes(old[0], new[0], sample.label, noise=noise)
