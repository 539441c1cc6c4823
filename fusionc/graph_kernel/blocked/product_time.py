"""Time estimates for products of rows with a constant matrix on one thread, here and in
onnxruntime.

They were measured with AVX-512 and onnxruntime 1.31. The numbers below are our time divided by
onnxruntime's. For few rows, onnxruntime waits for the matrix, which it reads in pages of 4 KiB, and
its tiles are not full: 0.5 for 8 rows, 0.68 for 16. For many rows, onnxruntime is 1 to 5 % faster
on one thread, and as fast on two. If rows are whole pages apart, the ratio is 0.86 to 0.95. With
many rows, time is saved by the operators that follow: here they find the results in the nearest
cache. Two measurements are not part of the estimate: 1.0 to 1.2 for 1 row and a large matrix
(onnxruntime 1.32); and with AVX2 (Zen 3, two threads) 0.92 to 0.97 for 64 and 128 rows, 0.98 for
512.

Strassen's algorithm computes 7 products in place of 8, and needs additional time for its sums. Its
time divided by that of direct products, with AVX-512 (Zen 4, two threads, the matrix in the last
cache): 0.97 for 128 rows, 768 input and 768 output channels; 0.93 for 128 rows, if the input or the
output has 3072 channels; 0.90 for 256 such rows; 0.94 for 400 rows, 384 input and 1152 output
channels. In whole models the matrix comes from memory, and the algorithm reads 1.75 times as much:
0.96 for 197 rows, 768 to 3072 channels (ViT); 1.00 for 128 such rows (BERT); 1.03 to 1.07 for 196
rows, 384 to 1024 channels (ConvNeXt, ResNet-50).
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
_ALONE = 1  # with so many rows, onnxruntime reads the matrix as fast as our steps
_CACHED = 40e9  # bytes of a small matrix that are read in a second
_SMALL = 1 << 20  # bytes of the largest matrix that counts as small
# Seconds that each element saves if a pass over the results is saved. The second number is for
# activations of many instructions, which are also faster here.
_PASS = 0.15e-9
_LONG_PASS = 0.5e-9
# For Strassen's algorithm: the share of products that it computes, and the share of time below
# which it is used.
_SEVEN_OF_EIGHT = 7 / 8
_WORTH = 0.97
# The time of its sums relative to the time of products. strassen_share divides these numbers by the
# input channels, by the output channels, or by the rows.
_SUMS_OF_RESULTS = 14.0
_SUMS_OF_ROWS = 16.0
_READING = 14.0
_BEGINNING = 2.5e6
_MANY = 1 << 40  # so many rows that only the channels matter
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
    """The time of a product with Strassen's algorithm, divided by that of the direct product."""
    products = channels_in * channels_out
    of_channels = _SUMS_OF_RESULTS / channels_in + _SUMS_OF_ROWS / channels_out
    sums = of_channels + (_READING + _BEGINNING / products) / rows
    return _SEVEN_OF_EIGHT * (1 + sums)


def strassen_from(channels_in: int, channels_out: int) -> int:
    """The least number of rows from which Strassen's algorithm certainly takes less time; 0 if
    there is none.
    """
    of_channels = strassen_share(_MANY, channels_in, channels_out)
    for_each_row = strassen_share(1, channels_in, channels_out) - of_channels
    spare = _WORTH - of_channels
    least = math.ceil(for_each_row / spare) if spare > 0 else 0
    return least if least < _MOST else 0


def pass_seconds(rows: int, channels: int, function: Activation) -> float:
    """Seconds that onnxruntime takes for a pass over the results of a product."""
    return rows * channels * (_PASS if function in _SHORT else _LONG_PASS)
