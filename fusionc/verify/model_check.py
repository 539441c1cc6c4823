"""The checker of onnx, on files."""

from __future__ import annotations

from pathlib import Path

import onnx

from fusionc.errors import VerificationError


def check_model(reference: Path, candidate: Path) -> None:
    """Raises VerificationError if onnx.checker rejects `candidate` though it accepts `reference`.

    Both are checked by path, as models with external data and beyond 2 GB require.
    """
    fault = _fault(candidate)
    if fault and _fault(reference) is None:
        raise VerificationError(
            f"the result is not a valid ONNX model: {fault}",
            where=str(candidate),
            hint="switch passes off one after another to find the one at fault, and report it",
        )


def _fault(path: Path) -> str | None:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return " ".join(str(error).split())
    return None
