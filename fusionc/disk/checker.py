"""What onnx's own checker says of a model."""

from __future__ import annotations

import os
from pathlib import Path

import onnx


def fault_of(model: Path | onnx.ModelProto) -> str | None:
    """What onnx.checker says against a model, in one line; None where it accepts it.

    One with external data, or beyond 2 GB, has to be a file.
    """
    try:
        onnx.checker.check_model(os.fspath(model) if isinstance(model, Path) else model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return " ".join(str(error).split())
    return None
