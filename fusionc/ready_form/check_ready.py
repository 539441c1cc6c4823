"""Whether the ready form that lies beside a model is one that `fusionc.session` would use, and
right.
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
    """One sentence on it; one that is not used here is not wrong."""

    is_right: bool
    summary: str


def check_ready(
    model: Path, shapes: Mapping[str, tuple[int, ...]], inputs: Path | None
) -> ReadyCheck | None:
    """Run the ready form that a session file says of a model, in the process for it, beside the
    model itself.

    None where the file says of none.
    """
    library = library_for(model)
    try:
        ready = ready_model(model, library)
    except NotReady as reason:
        return ReadyCheck(True, f"its ready form is not used here: it {reason}")
    if ready is None:
        return None
    kernels = known(library) if library.is_file() else None
    if library.is_file() and kernels is None:
        what = f"{library} was not compiled by this user's fusionc, so it is not loaded"
        return ReadyCheck(True, f"its ready form was not run: {what}")
    try:
        runs, different = bit_for_bit(model, ready, kernels, shapes, inputs)
    except RunError as error:
        return ReadyCheck(
            True, f"its ready form was not run: onnxruntime cannot run the model: {error}"
        )
    if different:
        return ReadyCheck(False, f"its ready form is wrong: {different}")
    return ReadyCheck(True, f"its ready form is equal to it, to the bit, in {runs} runs")
