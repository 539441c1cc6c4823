"""Kernels for a session of onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fusionc.errors import FusioncError


def library_of(model: str | os.PathLike[str]) -> Path:
    """Where the kernels of a model file lie: out.onnx → out.kernels.so."""
    return Path(model).with_suffix(".kernels.so")


def register_kernels(session_options: Any, model: str | os.PathLike[str]) -> None:
    """Let a session run the generated kernels of a model.

    `session_options` is the onnxruntime.SessionOptions that the session will be made with, `model` the path of the
    model file; its kernels lie beside it. Without this call the model computes the same, with onnxruntime's operators.
    Raises FusioncError if there is no library, or none for this machine.
    """
    library = library_of(model)
    if not library.is_file():
        raise FusioncError(
            f"{Path(model).name} has no kernels beside it",
            where=str(library),
            hint="convert the model with --enable_graph_kernel, and keep both files together; "
            "without its kernels it runs as well",
        )
    try:
        session_options.register_custom_ops_library(str(library.resolve()))
    except Exception as error:
        raise FusioncError(
            "the kernels cannot be loaded; were they made on another kind of machine?",
            where=str(library),
            hint=f"convert the model again on this one. onnxruntime says: {str(error).splitlines()[0]}",
        ) from error
