"""Check whether `fusionc.session` would use the ready form of a model (the form in which
onnxruntime holds the model in memory), and whether this form gives the same results as the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fusionc.graph_kernel.library.cache import known
from fusionc.graph_kernel.library.location import library_for
from fusionc.ready_form.bit_for_bit import bit_for_bit
from fusionc.ready_form.session import NotReady, ready_model
from fusionc.runtime.run_errors import RunError


@dataclass(frozen=True)
class ReadyCheck:
    """The result of checking a ready form."""

    is_right: bool  # a ready form that is not used on this machine counts as right
    summary: str  # one sentence without a full stop


def check_ready(
    model: Path, shapes: Mapping[str, tuple[int, ...]], inputs: Path | None
) -> ReadyCheck | None:
    """Run a model and the ready form that its session file names, and compare their results.

    Returns None if the session file does not name a ready form.
    """
    library = library_for(model)
    try:
        ready = ready_model(model, library)
    except NotReady as reason:
        return ReadyCheck(True, f"its ready form is not used on this machine: it {reason}")
    if ready is None:
        return None
    kernels = known(library) if library.is_file() else None
    if library.is_file() and kernels is None:
        cause = f"{library} was not compiled by this user's fusionc, so it is not loaded"
        return ReadyCheck(True, f"its ready form was not run: {cause}")
    try:
        runs, difference = bit_for_bit(model, ready, kernels, shapes, inputs)
    except RunError as error:
        return ReadyCheck(
            True, f"its ready form was not run: onnxruntime cannot run the model: {error}"
        )
    if difference:
        return ReadyCheck(False, f"its ready form is wrong: {difference}")
    return ReadyCheck(True, f"its ready form gives the same bits in {runs} runs")
