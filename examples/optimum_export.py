"""optimum: the model that it exports is optimized where it lies; with `slim=True` it would call
onnxslim itself.

To install: optimum-onnx, which has optimum.exporters.onnx, and what the model needs, mostly
transformers and torch.
"""

from pathlib import Path

import onnx
from optimum.exporters.onnx import main_export

import fusionc  # new


def export(name: str, folder: Path, task: str) -> Path:
    main_export(name, output=folder, task=task)
    path = folder / "model.onnx"
    model, _report = fusionc.optimize(path)  # new
    onnx.save(model, path)  # new
    return path
