"""Convolutions and products of bfloat16 numbers. Their sums are float32."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.convolve import MatrixKind
from fusionc.graph_kernel.blocked.step_kind import (
    StepEstimate,
    StepFunctions,
    StepKind,
    products_of_sums,
)

NARROW_BLOCK = 32  # channels in a block of bfloat16
# Measured on one thread with matrix tiles (Sapphire Rapids): products in a second, bytes of weights
# that are read in a second, and seconds for each number of a result. On processors that have only
# vectors of bfloat16, products take about four times as long: still half the time of float32.
_PRODUCTS = 600e9
_BYTES = 2
_STREAMED = 9e9
_RESULT = 0.15e-9


def _functions(size: str = "") -> StepFunctions:
    return StepFunctions(
        task="convolve_narrow",
        pack="pack_narrow",
        scratch="narrow_floats",
        packed_floats="narrow_weights",
        size=size,
        divide="divide_narrow",
        nanoseconds="narrow_ns",
    )


@dataclass(frozen=True)
class NarrowConvolution(StepKind):
    """The image is bfloat16. `second` and the result may be bfloat16 or float32."""

    family = "narrow"
    is_of_widest_vectors = True
    is_convolution = True
    keeps_pixels = True
    writes_rows = True
    products = staticmethod(products_of_sums)

    @classmethod
    def macros(cls) -> dict[str, str]:
        return {
            "GB_TILED": f"{_PRODUCTS / 1e9}",  # products in a nanosecond
            "GB_READ_NARROW": f"{_STREAMED / _BYTES / 1e9}",  # weights in a nanosecond
        }

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        _, there = MatrixKind().seconds(of)
        products = self.products(of.sizes)
        weights = products / of.out.pixels
        here = products / _PRODUCTS + _BYTES * weights / _STREAMED
        return here + of.out.pixels * of.out.channels * _RESULT, there


@dataclass(frozen=True)
class NarrowConvStep(NarrowConvolution):
    """The weights are [out, in / group, rows, columns]. Groups are whole blocks of channels."""

    # If the image was joined from two images: the number of channels of the first one. The second
    # one begins a new block. Otherwise 0.
    joined: int = 0
    functions = _functions(size="windowed")


@dataclass(frozen=True)
class NarrowProductStep(NarrowConvolution):
    """The weights are [in, out]."""

    functions = _functions()
