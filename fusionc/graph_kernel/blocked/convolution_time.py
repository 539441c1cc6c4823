"""About how long convolutions take on one thread, from their sizes: what decides between the direct
way and Winograd's; and copies of their images.

Measured with AVX-512; with shorter vectors all of them take longer, and which one is faster is much
the same.
"""

from __future__ import annotations

from dataclasses import dataclass

_PRODUCTS = 56e9  # in a second
# bytes of weights that come from memory in a second: no cache holds those of all convolutions
_STREAMED = 24e9
_TRANSFORMED = 2e9  # elements of images that are transformed in a second
_BEGIN = 2e-6  # seconds that transforms, or copies, take beside that, of however few tiles
COPIED = 25e9  # bytes in a second that are read and written into a layout of blocks, or out of it


@dataclass(frozen=True)
class WinogradTile:
    """What Winograd's way transforms at once: numbers in each direction, and by how much more its
    products take than direct ones, as they are sums of few tiles. The macros GB_…_OF of
    c/blocked_program.h know the same.
    """

    points: int
    pixels: int  # that it gives
    of_kernel: int  # points of its weights
    loss: float


WINOGRAD_TILES = {
    1: (WinogradTile(6, 4, 6, 1.2), WinogradTile(4, 2, 4, 1.2)),
    2: (WinogradTile(5, 2, 4, 1.05),),
}  # for each stride


def direct_seconds(pixels: int, taps: int, channels: int, made: int) -> float:
    """Each of the pixels of `made` channels is a sum over the elements of a kernel and the channels
    of a group.
    """
    return pixels * taps * channels * made / _PRODUCTS


def image_copy_seconds(pixels: int, channels: int) -> float:
    """So many pixels come into a layout of blocks, or out of it."""
    return _BEGIN + 8 * pixels * channels / COPIED


def winograd_seconds(
    height: int, width: int, channels: int, made: int, stride: int
) -> tuple[float, int]:
    """Seconds in which Winograd's way makes an image of these sizes with a kernel of 3×3, and how
    many points its fastest tiles have in each direction.
    """
    tiles = WINOGRAD_TILES[stride]
    return min(
        (_by_tiles(height, width, channels, made, stride, tile), tile.points) for tile in tiles
    )


def _by_tiles(
    height: int, width: int, channels: int, made: int, stride: int, tile: WinogradTile
) -> float:
    tiles = -(-height // tile.pixels) * -(-width // tile.pixels)
    products, weights = (n**2 * channels * made for n in (tile.points, tile.of_kernel))
    transformed = height * width * (stride**2 * channels + made)
    return (
        _BEGIN
        + max(tile.loss * tiles * products / _PRODUCTS, 4 * weights / _STREAMED)
        + transformed / _TRANSFORMED
    )
