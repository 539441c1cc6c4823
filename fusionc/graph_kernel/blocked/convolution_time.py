"""About how long convolutions and copies of images take on one thread.

Measured with AVX-512. With shorter vectors all of them take longer, and mostly the same one is the
fastest.
"""

from __future__ import annotations

PRODUCTS = 56e9  # in a second
_BEGIN = 2e-6  # seconds that a copy takes, however small the image is
COPIED = 25e9  # bytes in a second that are read and written on the way into the layout or out of it


def direct_seconds(pixels: int, taps: int, channels_in: int, channels_out: int) -> float:
    """Seconds in which so many pixels are made. Each channel is a sum over the elements of a kernel
    and the `channels_in` of a group.
    """
    return pixels * taps * channels_in * channels_out / PRODUCTS


def image_copy_seconds(pixels: int, channels: int) -> float:
    """Seconds in which so many pixels come into the layout of blocks, or leave it."""
    return _BEGIN + 8 * pixels * channels / COPIED
