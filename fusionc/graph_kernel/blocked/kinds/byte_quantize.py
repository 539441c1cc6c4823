"""Quantization of float32 images to bytes, and dequantization."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import byte_pass_seconds, quantization_seconds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind


@dataclass(frozen=True)
class ByteQuantizeStep(StepKind):
    """An image of bytes, quantized from a float32 image."""

    zero: int = 0  # the zero point of the result
    scale: float = 0.0
    functions = StepFunctions(task="byte_quantize")
    family = FAMILY
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return quantization_seconds(of)


@dataclass(frozen=True)
class ByteDequantizeStep(StepKind):
    """A float32 image, dequantized from an image of bytes."""

    zero_in: int = 0  # the zero point of the bytes
    scale: float = 0.0
    functions = StepFunctions(task="byte_dequantize")
    family = FAMILY
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return byte_pass_seconds(of)


@dataclass(frozen=True)
class ByteRoundStep(StepKind):
    """An image of float32, quantized and dequantized again."""

    functions = StepFunctions(task="byte_round")
    family = FAMILY
    keeps_pixels = True
    keeps_channels = True
    writes_in_place = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return quantization_seconds(of)
