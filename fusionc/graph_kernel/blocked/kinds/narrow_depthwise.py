"""Depthwise convolutions of bfloat16 images. Their sums and weights are float32."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import StepFunctions


@dataclass(frozen=True)
class NarrowDepthwiseStep(ConvolutionKind):
    """A depthwise convolution. The image and the result are bfloat16."""

    functions = StepFunctions(
        task="depthwise_narrow",
        pack="pack_pairs",
        packed_floats="pair_floats",
        size="windowed",
        nanoseconds="pairs_ns",
    )
    family = "narrow"
    is_of_widest_vectors = True
    keeps_channels = True
