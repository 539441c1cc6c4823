"""Measure how long each operator of a model takes in onnxruntime, with a user's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fusionc.runtime.custom_operators import libraries_in_use
from fusionc.runtime.process import request
from fusionc.runtime.session_settings import SessionSettings

_SECONDS = 1.0  # the default time of measuring
_SHORT = 0.05  # the time of measuring for `seconds_of_run`
_MOST_EVENTS = 20_000  # nodes, summed over all runs; each takes a kilobyte in the profile
_MOST_RUNS = 200
_PATIENCE = 120.0  # the default limit for the whole request, in seconds
_DEFAULTS = SessionSettings()


@dataclass(frozen=True)
class Profile:
    """The average times of several runs."""

    runs: int  # the number of runs
    seconds: float  # the seconds of a whole run: those of the operators and `between`
    between: float  # the seconds of onnxruntime itself, between the operators
    # By operator: the number of nodes that ran, and their seconds. The seconds of a node do not
    # include those of the nodes in its subgraphs.
    operators: dict[str, tuple[float, float]]


def profile(
    model: Path,
    feeds: Mapping[str, Any],
    nodes: int,
    kernels: Path | None = None,
    settings: SessionSettings = _DEFAULTS,
    is_optimized: bool = False,
    seconds: float = _SECONDS,
    most: float | None = _PATIENCE,
) -> Profile:
    """Profile a model on these inputs for `seconds`. `nodes` is the number of its nodes, and
    `kernels` the library of its generated kernels. The whole request may take `most` seconds; None
    means the limit of a step (see `process.step_limit`).

    Raises RunError if onnxruntime fails or takes too long.
    """
    runs = max(5, min(_MOST_RUNS, _MOST_EVENTS // max(nodes, 1)))
    libraries = [*libraries_in_use(), *([] if kernels is None else [str(kernels.resolve())])]
    # This process creates the folder, because the child process may end before removing it.
    with TemporaryDirectory() as folder:
        arguments = (
            os.path.abspath(model),
            libraries,
            settings.as_json(),
            is_optimized,
            feeds,
            runs,
            seconds,
            folder,
        )
        return Profile(*request("profile", *arguments, most=most))


def seconds_of_run(model: Path, feeds: Mapping[str, Any], kernels: Path | None = None) -> float:
    """The seconds of a run of a small model on one thread, without profiling: the shortest of many
    runs.

    Raises RunError if onnxruntime fails or takes too long.
    """
    libraries = [*libraries_in_use(), *([] if kernels is None else [str(kernels.resolve())])]
    seconds: float = request(
        "seconds_of_run", os.path.abspath(model), libraries, feeds, _SHORT, most=_PATIENCE
    )
    return seconds
