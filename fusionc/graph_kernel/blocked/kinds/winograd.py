"""Convolutions of 3×3 by Winograd's algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import winograd_seconds
from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions


@dataclass(frozen=True)
class WinogradStep(ConvolutionKind):
    """Tiles of pixels are transformed, multiplied point by point, and transformed back. Tiles with
    results that are not finite are computed again from the weights of the model.
    """

    tile_points: int  # of a tile, in each direction
    functions = StepFunctions(
        task="winograd",
        pack="pack_by_channel",
        derive_weights="transform_weights",
        scratch="winograd_floats",
        size="windowed",
        divide="divide_winograd",
        nanoseconds="winograd_ns",
        derive="give_transformed",
    )
    family = "winograd"
    reads_model_weights = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        out = of.out
        stride = of.window.stride[0]
        here, _ = winograd_seconds(out.height, out.width, of.image.channels, out.channels, stride)
        return here, self.seconds_there(of)
