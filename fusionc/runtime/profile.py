"""How long the operators of a model take in onnxruntime, as a user of the model runs it."""

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

_SECONDS = 1.0  # of measuring, unless the caller says how long
_SHORT = 0.05  # the same if one run is short
_MOST_EVENTS = 20_000  # nodes, of all runs; each is a kilobyte in a file
_MOST_RUNS = 200
_PATIENCE = 120.0  # seconds for all of it, if the user does not wait for that alone
_DEFAULTS = SessionSettings()


@dataclass(frozen=True)
class Profile:
    """One run, on average of several."""

    runs: int
    seconds: float  # the whole run: those of the operators and `between`
    between: float  # what onnxruntime itself takes
    operators: dict[str, tuple[float, float]]  # nodes that ran, and seconds without inner nodes


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
    """Run a model of that many nodes on these inputs for so many seconds, with a library of its own
    operators. All of it takes at most `most` seconds; None means the limit of a step.

    Raises RunError if onnxruntime cannot, or if it takes too long.
    """
    runs = max(2, min(_MOST_RUNS, _MOST_EVENTS // max(nodes, 1)))
    libraries = [*libraries_in_use(), *([] if kernels is None else [str(kernels.resolve())])]
    with TemporaryDirectory() as folder:  # of this process, which outlives the one that measures
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
    """The time of one run of a small model on one thread, with nothing else noted: the least of
    many such runs.

    Raises RunError if onnxruntime cannot, or if it takes too long.
    """
    libraries = [*libraries_in_use(), *([] if kernels is None else [str(kernels.resolve())])]
    seconds: float = request(
        "seconds_of_run", os.path.abspath(model), libraries, feeds, _SHORT, most=_PATIENCE
    )
    return seconds
