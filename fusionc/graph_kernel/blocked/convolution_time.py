"""About how long convolutions take on one thread, from their sizes: what decides between the direct way and Winograd's;
and copies of their images.

Measured with AVX-512; with shorter vectors all of them take longer, and which one is faster is much the same.
"""

from __future__ import annotations

_PRODUCTS = 56e9  # in a second
_STREAMED = 24e9  # bytes of weights that come from memory in a second: no cache holds those of all convolutions
_TRANSFORMED = 2e9  # elements of images that are transformed in a second
_SIDES = (4, 2)  # pixels that tiles may have in each direction
_LOSS = 1.2  # of products between transforms, which are of few pixels
_BEGIN = 2e-6  # seconds that transforms, or copies, take beside that, of however few tiles
COPIED = 25e9  # bytes in a second that are read and written into a layout of blocks, or out of it


def direct_seconds(pixels: int, taps: int, channels: int, made: int) -> float:
    """Each of the pixels of `made` channels is a sum over the elements of a kernel and the channels of a group."""
    return pixels * taps * channels * made / _PRODUCTS


def image_copy_seconds(pixels: int, channels: int) -> float:
    """So many pixels come into a layout of blocks, or out of it."""
    return _BEGIN + 8 * pixels * channels / COPIED


def winograd_seconds(height: int, width: int, channels: int, made: int) -> tuple[float, int]:
    """An image of these sizes by a kernel of 3×3, with Winograd's F(m×m, 3×3), and the m for which it takes least."""
    return min((_by_tiles(height, width, channels, made, side), side) for side in _SIDES)


def _by_tiles(height: int, width: int, channels: int, made: int, side: int) -> float:
    tiles = -(-height // side) * -(-width // side)
    weights = (side + 2) ** 2 * channels * made
    transformed = height * width * (channels + made)
    products = max(_LOSS * tiles * weights / _PRODUCTS, 4 * weights / _STREAMED)
    return _BEGIN + products + transformed / _TRANSFORMED
