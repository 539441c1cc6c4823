"""Convolutions and products as sums over all channels of a group."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import PRODUCTS, PRODUCTS_OF_LANE
from fusionc.graph_kernel.blocked.product_time import (
    STREAMED,
    pass_seconds,
    product_seconds,
    strassen_share,
)
from fusionc.graph_kernel.blocked.step_kind import (
    NO_ACTIVATION,
    Activation,
    StepEstimate,
    StepFunctions,
    StepKind,
    products_of_sums,
)

_DIRECT = 0.94  # the time of a convolution without Winograd or Strassen, divided by onnxruntime's


@dataclass(frozen=True)
class ConvolutionKind(StepKind):
    """The base of all convolutions in float32."""

    is_convolution = True
    products = staticmethod(products_of_sums)

    @classmethod
    def macros(cls) -> dict[str, str]:
        return {
            "GB_PRODUCTS": f"{PRODUCTS_OF_LANE / 1e9}",  # products in a nanosecond, for a float
            "GB_READ": f"{STREAMED / 4e9}",  # floats of weights that are read in a nanosecond
        }

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        there = self.seconds_there(of)
        return there * self.share(of), there

    def seconds_there(self, of: StepEstimate) -> float:
        """Seconds that onnxruntime takes."""
        seconds: float = self.products(of.sizes) / PRODUCTS
        return seconds

    def share(self, of: StepEstimate) -> float:
        """The time of the step, divided by onnxruntime's."""
        return _DIRECT


@dataclass(frozen=True)
class MatrixKind(ConvolutionKind):
    """A step that may be computed as a product of pixels and a matrix. If there are many pixels,
    this product may use Strassen's algorithm.
    """

    strassen_from: int = 0  # the number of pixels from which Strassen's algorithm is used; 0: never
    is_matrix = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        if not of.out.is_rows:
            there = self.seconds_there(of)
            return there * _DIRECT * self._strassen_share(of), there
        pixels = of.out.pixels
        channels = of.out.channels
        here, there = product_seconds(pixels, of.image.channels, channels)
        if of.second is not None:
            there += pass_seconds(pixels, channels, Activation.NONE)
        if of.activated != NO_ACTIVATION:
            there += pass_seconds(pixels, channels, of.activated.function)
        return here * self._strassen_share(of), there

    def _strassen_share(self, of: StepEstimate) -> float:
        if not self.strassen_from or of.out.pixels < self.strassen_from:
            return 1.0
        return strassen_share(of.out.pixels, of.image.channels, of.out.channels)


def _functions(pack: str, size: str = "") -> StepFunctions:
    return StepFunctions(
        task="convolve",
        pack=pack,
        scratch="multiplied_floats",
        size=size,
        divide="divide_convolution",
        nanoseconds="convolution_ns",
    )


@dataclass(frozen=True)
class ConvStep(MatrixKind):
    """The weights are [out, in / group, rows, columns]. Groups are whole blocks of channels."""

    functions = _functions("pack", size="windowed")
    reads_all_channels = True
    keeps_pixels = True
    scatters = True


@dataclass(frozen=True)
class ProductStep(MatrixKind):
    """The weights are [in, out]."""

    functions = _functions("pack_transposed")
    keeps_pixels = True


@dataclass(frozen=True)
class FirstStep(ConvolutionKind):
    """A convolution of an image with few channels, which is read directly from the tensor."""

    functions = StepFunctions(
        task="convolve",
        pack="pack_by_channel",
        packed_floats="first_floats",
        size="windowed",
        divide="divide_convolution",
        nanoseconds="convolution_ns",
    )
    reads_all_channels = True
