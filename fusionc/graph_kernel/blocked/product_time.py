"""Time estimates, on one thread, for products of rows with a constant matrix: here and in
onnxruntime.

They were measured with AVX-512 and onnxruntime 1.31. The table shows our time divided by
onnxruntime's:

    8 rows: 0.50         16 rows: 0.68 (onnxruntime waits for the matrix; its tiles are not full)
    many rows: 1.01 to 1.05 on one thread, 1.00 on two
    rows that are whole pages (4 KiB) apart: 0.86 to 0.95

With many rows, the operators that follow save time: here they find the results in the nearest
cache. Two measurements are not part of the estimate:

    1 row and a large matrix (onnxruntime 1.32): 1.0 to 1.2
    AVX2 (Zen 3, two threads): 0.92 to 0.97 for 64 and 128 rows, 0.98 for 512 rows

Strassen's algorithm computes 7 products instead of 8, and needs additional time for sums. Its time
divided by the time of direct products, with AVX-512 (Zen 4, two threads), if the matrix is in the
last-level cache:

    128 rows, 768 → 768 channels: 0.97       128 rows, 768 → 3072 or 3072 → 768 channels: 0.93
    256 such rows: 0.90                      400 rows, 384 → 1152 channels: 0.94

In whole models, the matrix comes from memory, and the algorithm reads 1.75 times as much:

    197 rows, 768 → 3072 channels (ViT): 0.96     128 such rows (BERT): 1.00
    196 rows, 384 → 1024 channels (ConvNeXt, ResNet-50): 1.03 to 1.07
"""

from __future__ import annotations

import math

from fusionc.graph_kernel.blocked.step_kind import Activation

_PRODUCTS = 48e9  # multiplications in a second
_PAGES_APART = 0.9  # the share of _PRODUCTS that onnxruntime reaches if rows are whole pages apart
_PAGE = 1024  # floats
_FEW = 32  # the most rows that count as few
_FEW_SHARE = 0.93  # onnxruntime's share of _PRODUCTS for few rows, if its tiles were full
_EMPTY_ROWS = 6  # about this many rows of a tile are empty in onnxruntime if there are few rows
# bytes of a large matrix that are read in a second, here and in onnxruntime
STREAMED = 17e9
_STREAMED_THERE = 11.5e9
_ALONE = 1  # with at most this many rows, onnxruntime reads the matrix as fast as the steps here
_CACHED = 40e9  # bytes of a small matrix that are read in a second
_SMALL = 1 << 20  # bytes of the largest matrix that counts as small
# Seconds that are saved for each element if onnxruntime's additional pass over the results is
# saved. _LONG_PASS is for activations of many instructions, which are also faster here.
_PASS = 0.15e-9
_LONG_PASS = 0.5e-9
# For Strassen's algorithm: the share of the products that it computes, and the largest share of the
# direct time with which it is used.
_SEVEN_OF_EIGHT = 7 / 8
_WORTH = 0.97
# The time of the algorithm's sums, relative to the time of the products. strassen_share divides
# these numbers by the number of input channels, of output channels, or of rows.
_SUMS_OF_RESULTS = 14.0
_SUMS_OF_ROWS = 16.0
_READING = 14.0
_BEGINNING = 2.5e6
_MANY = 1 << 40  # so many rows that the time for each row no longer matters
_MOST = 1 << 20  # more rows than any model has
_SHORT = (Activation.NONE, Activation.RELU, Activation.CLIP, Activation.LEAKY_RELU)


def product_seconds(rows: int, channels_in: int, channels_out: int) -> tuple[float, float]:
    """Seconds, here and in onnxruntime, to multiply rows by a matrix [channels_in, channels_out]
    and add a bias.
    """
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
    """The time of a product with Strassen's algorithm, divided by the time of a direct product."""
    products = channels_in * channels_out
    of_channels = _SUMS_OF_RESULTS / channels_in + _SUMS_OF_ROWS / channels_out
    sums = of_channels + (_READING + _BEGINNING / products) / rows
    return _SEVEN_OF_EIGHT * (1 + sums)


def strassen_from(channels_in: int, channels_out: int) -> int:
    """The smallest number of rows from which Strassen's algorithm certainly takes less time. 0 if
    it never does.
    """
    of_channels = strassen_share(_MANY, channels_in, channels_out)
    for_each_row = strassen_share(1, channels_in, channels_out) - of_channels
    spare = _WORTH - of_channels
    least = math.ceil(for_each_row / spare) if spare > 0 else 0
    return least if least < _MOST else 0


def pass_seconds(rows: int, channels: int, function: Activation) -> float:
    """Seconds that onnxruntime takes for a pass over the results of a product."""
    return rows * channels * (_PASS if function in _SHORT else _LONG_PASS)
