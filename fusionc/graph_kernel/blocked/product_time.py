"""About how long rows times a constant matrix take on one thread, here and in onnxruntime.

Measured with AVX-512, onnxruntime 1.31. For few rows onnxruntime waits for the matrix, which it
reads in pages of 4 KiB, and its tiles are not full: 8 rows take 0.5 of its time here, 16 take 0.68.
1 row times a large matrix takes 1.0 to 1.2 of the time of onnxruntime 1.32; that is not counted.
For many rows onnxruntime is as fast: 1 to 5 % faster on one thread, not on two. If rows are whole
pages apart, they take 0.86 to 0.95 of its time here. What is saved is what else is done to the
results, which are in the nearest cache here. With AVX2 (Zen 3, two threads) 64 and 128 rows take
0.92 to 0.97, 512 rows 0.98; that is not counted.

Strassen's algorithm takes 7 products instead of 8, and time for its sums. Measured with AVX-512
(Zen 4, two threads, the matrix in the last cache): 0.97 of the direct way for 128 rows of 768
channels in and out, 0.93 for 3072 in or out, 0.90 for 256 rows of these, 0.94 for 400 rows of 384
in and 1152 out. In whole models the matrix comes from memory, and 1.75 times as much is read: with
197 rows of 768 channels and up to 3072 (ViT) it takes 0.96 there, with 128 rows of these (BERT)
1.00, and with 196 of 384 to 1024 (ConvNeXt, ResNet-50) 1.03 to 1.07.
"""

from __future__ import annotations

import math

from fusionc.graph_kernel.blocked.step_kind import Activation

_PRODUCTS = 48e9  # in a second
_PAGES_APART = 0.9  # onnxruntime's share of that if rows are whole pages apart
_PAGE = 1024  # floats
_FEW = 32  # up to so many rows count as few, for which onnxruntime …
_FEW_SHARE = 0.93  # … would reach this share of the products if tiles were full …
_EMPTY_ROWS = 6  # … and leaves about so many rows of a tile empty
# bytes of a large matrix that are read in a second, here and in onnxruntime
_STREAMED = 17e9
_STREAMED_THERE = 11.5e9
_ALONE = 1  # for so many rows onnxruntime reads the matrix as fast
_CACHED = 40e9  # bytes of a small matrix in a second
_SMALL = 1 << 20  # bytes
# seconds for each number of a pass over results that is saved, and of one with an activation of
# many instructions, which is also faster here
_PASS = 0.15e-9
_LONG_PASS = 0.5e-9
# Strassen's algorithm: the share of products, and the share of time below which it is used
_SEVEN_OF_EIGHT = 7 / 8
_WORTH = 0.97
# the time of its sums as a share of that of products: for one channel in, or out, or one row,
# whose matrix comes from memory, or one product
_SUMS_OF_RESULTS = 14.0
_SUMS_OF_ROWS = 16.0
_READING = 14.0
_BEGINNING = 2.5e6
_MANY = 1 << 40  # rows, so many that channels alone count
_MOST = 1 << 20  # more rows than any model has
_SHORT = (Activation.NONE, Activation.RELU, Activation.CLIP, Activation.LEAKY_RELU)


def product_seconds(rows: int, channels_in: int, channels_out: int) -> tuple[float, float]:
    """Seconds here and in onnxruntime for rows times [channels_in, channels_out], with a bias."""
    products = rows * channels_in * channels_out
    weights = 4 * channels_in * channels_out
    read = _STREAMED if weights > _SMALL else _CACHED
    read_there = _STREAMED_THERE if weights > _SMALL and rows > _ALONE else read
    share = _PAGES_APART if channels_in % _PAGE == 0 else 1.0
    if rows <= _FEW:
        share = _FEW_SHARE * rows / (rows + _EMPTY_ROWS)
    return max(weights / read, products / _PRODUCTS), max(
        weights / read_there, products / (_PRODUCTS * share)
    )


def strassen_share(rows: int, channels_in: int, channels_out: int) -> float:
    """The time of the same product by Strassen's algorithm, as a share of the direct way's."""
    products = channels_in * channels_out
    of_channels = _SUMS_OF_RESULTS / channels_in + _SUMS_OF_ROWS / channels_out
    sums = of_channels + (_READING + _BEGINNING / products) / rows
    return _SEVEN_OF_EIGHT * (1 + sums)


def strassen_from(channels_in: int, channels_out: int) -> int:
    """From how many rows on that is surely less; 0 if it never is."""
    of_channels = strassen_share(_MANY, channels_in, channels_out)
    for_each_row = strassen_share(1, channels_in, channels_out) - of_channels
    spare = _WORTH - of_channels
    least = math.ceil(for_each_row / spare) if spare > 0 else 0
    return least if least < _MOST else 0


def pass_seconds(rows: int, channels: int, function: Activation) -> float:
    """Seconds that onnxruntime takes for a pass over the results of a product."""
    return rows * channels * (_PASS if function in _SHORT else _LONG_PASS)
