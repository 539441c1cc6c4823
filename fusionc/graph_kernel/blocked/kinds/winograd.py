"""Convolutions of 3×3 by Winograd's algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import PRODUCTS, direct_seconds
from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import BLOCK, KernelWindow, StepEstimate, StepFunctions

# bytes of weights that come from memory in a second: no cache holds those of all convolutions
_STREAMED = 24e9
_TRANSFORMED = 2e9  # elements of images that are transformed in a second
_BEGIN = 2e-6  # seconds that transforms take, however few tiles there are
_WORTH = 0.9  # the algorithm is taken below this share of the time of the direct way


@dataclass(frozen=True)
class WinogradTile:
    """What is transformed at once."""

    points: int  # in each direction
    pixels: int  # that it gives, in each direction
    of_kernel: int  # points of its weights, in each direction
    loss: float  # the time of its products, which are sums of few tiles, by that of direct ones


WINOGRAD_TILES = {
    1: (WinogradTile(6, 4, 6, 1.2), WinogradTile(4, 2, 4, 1.2)),
    2: (WinogradTile(5, 2, 4, 1.05),),
}  # for each stride
_TILES = [(tile, stride) for stride, tiles in WINOGRAD_TILES.items() for tile in tiles]


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

    @classmethod
    def macros(cls) -> dict[str, str]:
        return {
            "GB_PIXELS_OF(P)": _by_points({tile.points: tile.pixels for tile, _ in _TILES}),
            "GB_STRIDE_OF(P)": _by_points({tile.points: stride for tile, stride in _TILES}),
            "GB_KERNEL_OF(P)": _by_points({tile.points: tile.of_kernel for tile, _ in _TILES}),
        }

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        out = of.out
        stride = of.window.stride[0]
        here, _ = winograd_seconds(out.height, out.width, of.image.channels, out.channels, stride)
        return here, self.seconds_there(of)


def _by_points(numbers: Mapping[int, int]) -> str:
    """The C expression of a number that belongs to tiles of P points."""
    *others, last = numbers.items()
    return f"({''.join(f'(P) == {points} ? {n} : ' for points, n in others)}{last[1]})"


def tile_points(
    window: KernelWindow, height: int, width: int, channels_in: int, channels_out: int
) -> int:
    """The points of the fastest tiles in each direction, for a result of this height and width; 0
    if the direct way takes less time, or the window does not fit.
    """
    stride, other = window.stride
    is_plain = (window.kernel, window.dilation, window.group) == ((3, 3), (1, 1), 1)
    if not is_plain or stride != other or stride > 2 or min(channels_in, channels_out) < BLOCK:
        return 0
    direct = direct_seconds(height * width, 9, channels_in, channels_out)
    seconds, points = winograd_seconds(height, width, channels_in, channels_out, stride)
    return points if seconds < _WORTH * direct else 0


def winograd_seconds(
    height: int, width: int, channels_in: int, channels_out: int, stride: int
) -> tuple[float, int]:
    """Seconds in which an image of these sizes is made, and the points of its fastest tiles in each
    direction.
    """
    return min(
        (_by_tiles(height, width, channels_in, channels_out, stride, tile), tile.points)
        for tile in WINOGRAD_TILES[stride]
    )


def _by_tiles(
    height: int, width: int, channels_in: int, channels_out: int, stride: int, tile: WinogradTile
) -> float:
    tiles = -(-height // tile.pixels) * -(-width // tile.pixels)
    products, weights = (n**2 * channels_in * channels_out for n in (tile.points, tile.of_kernel))
    transformed = height * width * (stride**2 * channels_in + channels_out)
    return (
        _BEGIN
        + max(tile.loss * tiles * products / PRODUCTS, 4 * weights / _STREAMED)
        + transformed / _TRANSFORMED
    )
