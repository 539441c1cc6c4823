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
    """A convolution or product with weights of 8 bits, and with a bias of int32 or float32.
    `tensor` has a factor for each output channel, which converts the channel's sums to quantization
    steps of the result (multiples of its scale).
    """

    zero: int = 0  # the zero point of the result, which also fills its border
    zero_in: int = 0  # the zero point of the image
    flip: int = 0  # the bits to flip in the model's weights to make them signed
    zero_weights: int = 0  # the zero point of the signed weights
    least: int = 0  # the lower bound of results; `most` is the upper bound
    most: int = 255
    # For a sum with `second`: the scales of the convolution's result and of `second`, divided by
    # the scale of the sum; and the addend of the sum.
    factor: float = 0.0
    factor2: float = 0.0
    addend: float = 0.0
    zero_product: int = 0  # the zero point of the convolution's result, before the sum
    is_swapped: bool = False  # whether `second` is the first operand of the sum
    # the scale of the result if the bias is float32; 0 if the bias is integers
    scale: float = 0.0
    has_floats: bool = False  # whether the result is float32; its scale then counts as 1
    # Whether `second` is added before results are rounded. In this case, it is float32, or bytes
    # with the zero point zero_second; factor2 is its scale, divided by the scale of the result.
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
    """The weights are [out, in, rows, columns]."""

    functions = _functions("pack_bytes", size="windowed")


@dataclass(frozen=True)
class ByteProductStep(ByteConvolutionKind):
    """The weights are [in, out]."""

    functions = _functions("pack_byte_rows")


@dataclass(frozen=True)
class ByteFirstStep(ByteConvolutionKind):
    """A convolution of an image with at most four channels. Each pixel of the image has four
    bytes.
    """

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
