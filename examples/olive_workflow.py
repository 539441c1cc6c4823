"""Olive: what a workflow has made is optimized for onnxruntime in the end.

To install: olive-ai.
"""

from typing import Any

import onnx
from olive import run

import fusionc  # new


def optimized(workflow: dict[str, Any]) -> str:
    path = run(workflow).get_best_candidate().model_path
    model, _report = fusionc.optimize(path)  # new
    onnx.save(model, path)  # new
    return path
