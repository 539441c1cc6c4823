"""Convolutions and products of bfloat16 with sums of float32."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind

NARROW_BLOCK = 32  # channels of bfloat16 that lie together


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
    """The image is of bfloat16; `second` and the result are of either."""

    family = "narrow"
    is_of_widest_vectors = True
    is_convolution = True
    keeps_pixels = True


@dataclass(frozen=True)
class NarrowConvStep(NarrowConvolution):
    """Weights are [out, in / group, rows, columns], and groups are whole blocks of channels."""

    functions = _functions(size="windowed")


@dataclass(frozen=True)
class NarrowProductStep(NarrowConvolution):
    """Weights are [in, out]."""

    functions = _functions()
