"""The checker of onnx, on files."""

from __future__ import annotations

from pathlib import Path

import onnx

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


def fault_of(path: Path) -> str | None:
    """What onnx.checker says against a model file, in one line; None where it accepts it."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return " ".join(str(error).split())
    return None
