"""Write the model that onnxruntime's optimizers make, and find out which optimizers changed the
model. Only onnxruntime's log says this.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnxruntime as ort

from fusionc.runtime.file_limit import unlimited_files
from fusionc.runtime.measured_session import deployed_options

_INFO_LEVEL = 1  # the level of onnxruntime's log at which it reports its optimizers
_CHANGED = re.compile(rb"GraphTransformer (\S+) modified: 1")


def optimized_by(
    model: str,
    libraries: Sequence[str],
    settings: Mapping[str, Any],
    is_optimized: bool,
    target: str,
) -> list[str]:
    """Write the optimized model to `target`, and its weights to a file next to it. Return the
    optimizers that changed the model.
    """
    options = deployed_options(libraries, settings, is_optimized)
    options.log_severity_level = _INFO_LEVEL
    options.optimized_model_filepath = target
    name = f"{os.path.basename(target)}.data"
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", name
    )
    with tempfile.TemporaryFile() as printed:
        with _errors_to(printed.fileno()), unlimited_files():
            ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        printed.seek(0)
        names = [match[1].decode() for match in _CHANGED.finditer(printed.read())]
    return list(dict.fromkeys(names))


@contextmanager
def _errors_to(descriptor: int) -> Iterator[None]:
    """A context manager that redirects stderr of the process to this file descriptor."""
    before = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
