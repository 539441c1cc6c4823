"""About how long convolutions take on one thread, from their sizes: what decides between the direct way and Winograd's.

Measured with AVX-512; with shorter vectors all of them take longer, and which one is faster is much the same.
"""

from __future__ import annotations

_PRODUCTS = 56e9  # in a second
_STREAMED = 15e9  # bytes of weights that come from memory in a second: no cache holds those of all convolutions
_TRANSFORMED = 2e9  # elements of images that are transformed in a second
_POINTS = 36  # of a tile
_SIDE = 4  # pixels of a tile, in each direction
_LOSS = 1.2  # of products between transforms, which are of few pixels


def direct_seconds(pixels: int, taps: int, channels: int, made: int) -> float:
    """Each of the pixels of `made` channels is a sum over the elements of a kernel and the channels of a group."""
    return pixels * taps * channels * made / _PRODUCTS


def winograd_seconds(height: int, width: int, channels: int, made: int) -> float:
    """An image of these sizes by a kernel of 3×3, with Winograd's F(4×4, 3×3)."""
    tiles = -(-height // _SIDE) * -(-width // _SIDE)
    weights = _POINTS * channels * made
    transformed = height * width * (channels + made)
    return _LOSS * tiles * weights / _PRODUCTS + 4 * weights / _STREAMED + transformed / _TRANSFORMED
