"""Time estimates for rows times a constant matrix on one thread, here and in onnxruntime.

Measured with AVX-512, onnxruntime 1.31; figures are our time divided by onnxruntime's. For few rows
onnxruntime waits for the matrix, which it reads in pages of 4 KiB, and its tiles are not full:
0.5 for 8 rows, 0.68 for 16. For many rows onnxruntime is as fast: 1 to 5 % faster on one thread,
not on two. If rows are whole pages apart: 0.86 to 0.95. The gain then is in the operators that
follow, because here they find the results in the nearest cache. Two measurements are not part of
the estimate: 1.0 to 1.2 for 1 row times a large matrix (onnxruntime 1.32); and with AVX2 (Zen 3,
two threads) 0.92 to 0.97 for 64 and 128 rows, 0.98 for 512.

Strassen's algorithm takes 7 products instead of 8, and additional time for its sums. Its time
divided by that of direct products, with AVX-512 (Zen 4, two threads, the matrix in the last cache):
0.97 for 128 rows of 768 channels in and out, 0.93 for 3072 in or out, 0.90 for 256 rows of these,
0.94 for 400 rows of 384 in and 1152 out. In whole models the matrix comes from memory, and 1.75
times as much is read: 0.96 for 197 rows of 768 to 3072 channels (ViT), 1.00 for 128 rows of these
(BERT), 1.03 to 1.07 for 196 rows of 384 to 1024 (ConvNeXt, ResNet-50).
"""

from __future__ import annotations

import math

from fusionc.graph_kernel.blocked.step_kind import Activation

_PRODUCTS = 48e9  # multiplications in a second
_PAGES_APART = 0.9  # onnxruntime reaches this share of _PRODUCTS if rows are whole pages apart
_PAGE = 1024  # floats
_FEW = 32  # up to this many rows count as few; for few rows onnxruntime …
_FEW_SHARE = 0.93  # … would reach this share of _PRODUCTS with full tiles …
_EMPTY_ROWS = 6  # … but leaves about this many rows of a tile empty
# bytes of a large matrix that are read in a second, here and in onnxruntime
STREAMED = 17e9
_STREAMED_THERE = 11.5e9
_ALONE = 1  # for this many rows onnxruntime reads the matrix as fast as we do
_CACHED = 40e9  # bytes of a small matrix in a second
_SMALL = 1 << 20  # bytes
# seconds for each element of a pass over results that is saved; then the same for an activation of
# many instructions, which is also faster here
_PASS = 0.15e-9
_LONG_PASS = 0.5e-9
# Strassen's algorithm: the share of products, and the share of time below which it is used
_SEVEN_OF_EIGHT = 7 / 8
_WORTH = 0.97
# the time of its sums relative to that of products; strassen_share divides these by the channels
# in, the channels out, or the rows
_SUMS_OF_RESULTS = 14.0
_SUMS_OF_ROWS = 16.0
_READING = 14.0
_BEGINNING = 2.5e6
_MANY = 1 << 40  # rows: so many that only the channels matter
_MOST = 1 << 20  # more rows than any model has
_SHORT = (Activation.NONE, Activation.RELU, Activation.CLIP, Activation.LEAKY_RELU)


def product_seconds(rows: int, channels_in: int, channels_out: int) -> tuple[float, float]:
    """Seconds here and in onnxruntime for rows times [channels_in, channels_out], with a bias."""
    products = rows * channels_in * channels_out
    weights = 4 * channels_in * channels_out
    read = STREAMED if weights > _SMALL else _CACHED
    read_there = _STREAMED_THERE if weights > _SMALL and rows > _ALONE else read
    share = _PAGES_APART if channels_in % _PAGE == 0 else 1.0
    if rows <= _FEW:
        share = _FEW_SHARE * rows / (rows + _EMPTY_ROWS)
    return max(weights / read, products / _PRODUCTS), max(
        weights / read_there, products / (_PRODUCTS * share)
    )


def strassen_share(rows: int, channels_in: int, channels_out: int) -> float:
    """The time of the same product by Strassen's algorithm, divided by that of the direct one."""
    products = channels_in * channels_out
    of_channels = _SUMS_OF_RESULTS / channels_in + _SUMS_OF_ROWS / channels_out
    sums = of_channels + (_READING + _BEGINNING / products) / rows
    return _SEVEN_OF_EIGHT * (1 + sums)


def strassen_from(channels_in: int, channels_out: int) -> int:
    """The least number of rows for which Strassen's algorithm surely takes less; 0 if none does."""
    of_channels = strassen_share(_MANY, channels_in, channels_out)
    for_each_row = strassen_share(1, channels_in, channels_out) - of_channels
    spare = _WORTH - of_channels
    least = math.ceil(for_each_row / spare) if spare > 0 else 0
    return least if least < _MOST else 0


def pass_seconds(rows: int, channels: int, function: Activation) -> float:
    """Seconds that onnxruntime takes for a pass over the results of a product."""
    return rows * channels * (_PASS if function in _SHORT else _LONG_PASS)
