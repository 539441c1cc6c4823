"""Time estimates for convolutions and copies of images on one thread.

They were measured with AVX-512. With shorter vectors, all algorithms take longer, but usually the
same algorithm is the fastest.
"""

from __future__ import annotations

PRODUCTS_OF_LANE = 3.5e9  # multiplications in a second, for each float of a vector
PRODUCTS = 16 * PRODUCTS_OF_LANE
_BEGIN = 2e-6  # seconds that even the smallest copy takes
COPIED = 25e9  # bytes read and written in a second while images enter or leave the layout


def image_copy_seconds(pixels: int, channels: int) -> float:
    """Seconds to copy this number of pixels into the blocked layout, or out of it."""
    return _BEGIN + 8 * pixels * channels / COPIED
