"""About how long rows times a constant matrix take on one thread, here and in onnxruntime.

Measured with AVX-512, onnxruntime 1.31. Of few rows onnxruntime waits for the matrix, which it reads in pages of 4 KiB,
and fills tiles badly: 1 row takes 0.65 of its time here, 8 rows 0.5, 16 take 0.68. From 64 rows on it is 0.9 to 0.94,
but on two threads 0.96 to 1.1, so that many rows, and rows of which nobody knows how many they are, save nothing.
"""

from __future__ import annotations

_PRODUCTS = 48e9  # in a second
_THEIRS, _EMPTY_ROWS = 0.93, 6  # the share of that which onnxruntime reaches, and rows of tiles that it does not fill
_STREAMED, _STREAMED_THERE = 17e9, 11.5e9  # bytes of a large matrix in a second
_CACHED = 40e9  # of a small one
_SMALL = 1 << 20  # bytes
_MANY = 32  # rows
_COPIED = 25e9  # bytes of rows that go into the layout or come out of it in a second
_BEGIN = 1e-6  # seconds


def product_seconds(rows: int, taken: int, made: int) -> tuple[float, float]:
    """Seconds here and in onnxruntime for [rows, taken] times [taken, made], bias and all."""
    products, weights = rows * taken * made, 4 * taken * made
    if rows > _MANY:
        seconds = max(weights / _STREAMED, products / _PRODUCTS)
        return seconds, seconds
    read, read_there = (_STREAMED, _STREAMED_THERE) if weights > _SMALL else (_CACHED, _CACHED)
    share = _THEIRS * rows / (rows + _EMPTY_ROWS)
    return max(weights / read, products / _PRODUCTS), max(weights / read_there, products / (_PRODUCTS * share))


def copy_seconds(rows: int, channels: int) -> float:
    """Seconds for rows to come into the layout, or out of it, of which onnxruntime has none."""
    return _BEGIN + 8 * rows * channels / _COPIED
