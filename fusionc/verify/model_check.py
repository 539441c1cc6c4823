"""The checker of onnx, on files."""

from __future__ import annotations

from pathlib import Path

from fusionc.disk.checker import fault_of
from fusionc.errors import VerificationError


def check_model(reference: Path, candidate: Path) -> None:
    """Raises VerificationError if onnx.checker rejects `candidate` though it accepts `reference`.

    Both are checked by path, as models with external data and beyond 2 GB require.
    """
    fault = fault_of(candidate)
    if fault and fault_of(reference) is None:
        raise VerificationError(
            f"the result is not a valid ONNX model: {fault}",
            where=str(candidate),
            hint="switch passes off one after another to find the one at fault, and report it",
        )
