"""torch.onnx: the program that it exports is optimized in memory, and saved then.

To install: torch, and onnxscript, which its exporter needs.
"""

import torch

import fusionc  # new


def export(model: torch.nn.Module, sample: torch.Tensor, path: str) -> None:
    program = torch.onnx.export(model.eval(), (sample,), dynamo=True)
    program, _report = fusionc.optimize(program)  # new
    program.save(path)
