"""Ultralytics: fusionc in the place of onnxslim, which its exporter would call. Its metadata stays
in the model.

To install: ultralytics.
"""

import onnx
from ultralytics import YOLO

import fusionc  # new


def export(weights: str) -> str:
    path = str(YOLO(weights).export(format="onnx", simplify=False))  # changed: without onnxslim
    onnx.save(fusionc.slim(path), path)  # new
    return path
