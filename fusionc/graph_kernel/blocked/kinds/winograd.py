"""3×3 convolutions with Winograd's algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusionc.graph_kernel.blocked.convolution_time import PRODUCTS
from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.step_kind import BLOCK, KernelWindow, StepEstimate, StepFunctions

# Bytes of weights that are read from memory in a second. They come from memory, because caches are
# too small for the weights of all convolutions.
_STREAMED = 24e9
_TRANSFORMED = 2e9  # elements of images that are transformed in a second
_BEGIN = 2e-6  # seconds that the transforms of even a few tiles take
_WORTH = 0.9  # the algorithm is used if its time is below this share of a direct convolution's


@dataclass(frozen=True)
class WinogradTile:
    """The pixels of the result that are transformed together. A transform makes points from
    pixels.
    """

    points: int  # the number of points in each direction
    pixels: int  # the number of pixels of the result in each direction
    of_kernel: int  # the number of points of the weights in each direction
    # the time of a product relative to a direct one; above 1, because sums over few tiles are
    # slower
    loss: float


WINOGRAD_TILES = {
    1: (WinogradTile(6, 4, 6, 1.2), WinogradTile(4, 2, 4, 1.2)),
    2: (WinogradTile(5, 2, 4, 1.05),),
}  # stride → tiles
_TILES = [(tile, stride) for stride, tiles in WINOGRAD_TILES.items() for tile in tiles]


@dataclass(frozen=True)
class WinogradStep(ConvolutionKind):
    """Transforms tiles of pixels to points, multiplies point by point, and transforms the products
    back. If a result of a tile is not finite, the tile is computed again without the algorithm.
    """

    tile_points: int  # points of a tile in each direction
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
    """A C expression for a number that depends on P, the number of points of a tile."""
    *others, last = numbers.items()
    return f"({''.join(f'(P) == {points} ? {n} : ' for points, n in others)}{last[1]})"


def tile_points(
    window: KernelWindow, height: int, width: int, channels_in: int, channels_out: int
) -> int:
    """The number of points, in each direction, of the tiles that are fastest for a result of this
    height and width. 0 if a direct convolution takes less time, or if no tile fits the window.
    """
    stride, other = window.stride
    is_plain = (window.kernel, window.dilation, window.group) == ((3, 3), (1, 1), 1)
    if not is_plain or stride != other or stride > 2 or min(channels_in, channels_out) < BLOCK:
        return 0
    direct = height * width * 9 * channels_in * channels_out / PRODUCTS
    seconds, points = winograd_seconds(height, width, channels_in, channels_out, stride)
    return points if seconds < _WORTH * direct else 0


def winograd_seconds(
    height: int, width: int, channels_in: int, channels_out: int, stride: int
) -> tuple[float, int]:
    """The seconds to compute an image of these sizes with the fastest tiles, and the number of
    points of these tiles in each direction.
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
