"""Copies of images and rows into the blocked layout, and out of it."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import COPIED
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind

_BEGIN = 1e-6  # seconds that even the smallest copy takes
# The floats of a vector. Rows of whole vectors are read in place, without a copy, unless they are
# whole pages (of _PAGE floats) apart.
_VECTOR = 16
_PAGE = 1024


@dataclass(frozen=True)
class _TensorCopy(StepKind):
    is_channels_last: bool  # whether the channels are the last axis of the tensor
    is_copy = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return copy_seconds(of), 0.0


@dataclass(frozen=True)
class LoadStep(_TensorCopy):
    """Copies an input of the area into the blocked layout."""

    zero: int = 0  # the zero point of bytes
    flip: int = 0  # the bits to flip in the bytes of the tensor to make them unsigned
    scale: float = 0.0  # the scale to which a float32 tensor is quantized; 0 for other tensors
    functions = StepFunctions(task="load_rows")


@dataclass(frozen=True)
class StoreStep(_TensorCopy):
    """Copies an image to an output of the area."""

    flip: int = 0
    functions = StepFunctions(task="store_rows")


def copy_seconds(of: StepEstimate) -> float:
    """Seconds to copy rows into the blocked layout, or out of it. onnxruntime makes no such
    copies.
    """
    if not of.out.is_rows:
        return 0.0
    channels = of.out.channels
    is_copied = channels % _VECTOR != 0 or channels % _PAGE == 0
    return _BEGIN + (8 * of.out.pixels * channels / COPIED if is_copied else 0.0)
