"""Convolutions and products of 8-bit integers, with sums of 32 bits."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.byte_time import sum_seconds
from fusionc.graph_kernel.blocked.step_kind import (
    StepEstimate,
    StepFunctions,
    StepKind,
    products_of_sums,
)

FAMILY = "bytes"


@dataclass(frozen=True)
class ByteConvolutionKind(StepKind):
    """A convolution or product with weights of 8 bits and a bias of int32 or float32. `tensor` has
    a factor for each channel out, which scales its sum to quantization steps of the result.
    """

    zero: int = 0  # the zero point of the result; its borders hold it too
    zero_in: int = 0  # the zero point of the image
    flip: int = 0  # the bits to flip to turn the weights of the model into signed ones
    zero_weights: int = 0  # the zero point of signed weights
    least: int = 0  # the result lies between `least` and `most`
    most: int = 255
    # of a sum with `second`: both quantization steps in steps of the result, and the addend
    factor: float = 0.0
    factor2: float = 0.0
    addend: float = 0.0
    zero_product: int = 0  # the zero point before the sum
    is_swapped: bool = False  # `second` is the first operand of the sum
    # the scale of the result if the bias is float32; 0 if it is integers
    scale: float = 0.0
    has_floats: bool = False  # the result is float32; then a step of it is 1
    # `second` is added before the sum is rounded: float32, or bytes with this zero point; factor2
    # is then its step in steps of the result
    adds_floats: bool = False
    zero_second: int = 0
    is_convolution = True
    gives_range = True
    family = FAMILY
    products = staticmethod(products_of_sums)

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        products = self.products(of.sizes)
        return sum_seconds(of, products, is_first=False, has_floats=self.has_floats)


def _functions(pack: str, size: str = "") -> StepFunctions:
    return StepFunctions(
        task="byte_convolve",
        pack=pack,
        packed_floats="byte_panels",
        size=size,
        divide="divide_bytes",
        nanoseconds="byte_ns",
    )


@dataclass(frozen=True)
class ByteConvStep(ByteConvolutionKind):
    """Weights are [out, in, rows, columns]."""

    functions = _functions("pack_bytes", size="windowed")


@dataclass(frozen=True)
class ByteProductStep(ByteConvolutionKind):
    """Weights are [in, out]."""

    functions = _functions("pack_byte_rows")


@dataclass(frozen=True)
class ByteFirstStep(ByteConvolutionKind):
    """A convolution of at most four channels, which lie together in four bytes."""

    functions = StepFunctions(
        task="byte_convolve",
        pack="pack_pixels",
        packed_floats="first_panels",
        size="windowed",
        divide="divide_bytes",
        nanoseconds="byte_ns",
    )

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        return sum_seconds(of, self.products(of.sizes), is_first=True)
