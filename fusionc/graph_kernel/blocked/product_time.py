"""About how long rows times a constant matrix take on one thread, here and in onnxruntime.

Measured with AVX-512, onnxruntime 1.31. Of few rows onnxruntime waits for the matrix, which it
reads in pages of 4 KiB, and fills tiles badly: 8 rows take 0.5 of its time here, 16 take 0.68. 1
row of a large matrix takes 1.0 to 1.2 of that of onnxruntime 1.32, of which nothing is counted. Of
many rows it is as fast, on one thread 1 to 5 % faster, on two not, unless rows are whole pages
apart: 0.86 to 0.95 then. What is saved is what else is done to the results: here they are in the
nearest cache. With AVX2 (Zen 3, two threads) 64 and 128 rows take 0.92 to 0.97, 512 rows 0.98, of
which nothing is counted.

Strassen's algorithm takes 7 products of 8 and, beside these, time for its sums. Measured with
AVX-512 (Zen 4, two threads, the matrix in the last cache): 0.97 of the direct way for 128 rows of
768 channels in and out, 0.93 for 3072 in or out, 0.90 for 256 rows of these, 0.94 for 400 rows of
384 in and 1152 out. In whole models the matrix comes from memory, 1.75 times as much of it: with
197 rows of 768 channels and up to 3072 (ViT) it takes 0.96 there, with 128 rows of these (BERT)
1.00, and with 196 of 384 to 1024 (ConvNeXt, ResNet-50) 1.03 to 1.07.
"""

from __future__ import annotations

import math

from fusionc.graph_kernel.blocked.step_kind import Activation

_PRODUCTS = 48e9  # in a second
_PAGES_APART = 0.9  # what onnxruntime reaches of that where rows are whole pages apart
_PAGE = 1024  # floats
_FEW = 32  # rows: of at most so many onnxruntime reaches …
# … this, where tiles were full, and leaves about so many rows of a tile empty
_OF_FEW = 0.93
_EMPTY_ROWS = 6
# bytes of a large matrix in a second
_STREAMED = 17e9
_STREAMED_THERE = 11.5e9
_ALONE = 1  # row: onnxruntime reads the matrix as fast for it
_CACHED = 40e9  # of a small one
_SMALL = 1 << 20  # bytes
_PASS = 0.15e-9  # seconds for each number of a pass over results that is saved …
# … and of one with an activation of many instructions, which is faster here besides
_LONG_PASS = 0.5e-9
# products of Strassen's algorithm, and the share of time below which it is taken
_SEVEN_OF_EIGHT = 7 / 8
_WORTH = 0.97
# what its sums take beside products of so many channels in, or out …
_OF_RESULTS = 14.0
_OF_ROWS = 16.0
# … or rows, whose matrix comes from memory, or products in all
_BESIDE_ROWS = 14.0
_BESIDE_PRODUCTS = 2.5e6
# rows, beside which nothing else counts, and more than any model has
_MANY = 1 << 40
_MOST = 1 << 20
_SHORT = (Activation.NONE, Activation.RELU, Activation.CLIP, Activation.LEAKY_RELU)


def product_seconds(rows: int, taken: int, made: int) -> tuple[float, float]:
    """Seconds here and in onnxruntime for [rows, taken] times [taken, made], bias and all."""
    products = rows * taken * made
    weights = 4 * taken * made
    read = _STREAMED if weights > _SMALL else _CACHED
    read_there = _STREAMED_THERE if weights > _SMALL and rows > _ALONE else read
    share = _PAGES_APART if taken % _PAGE == 0 else 1.0
    if rows <= _FEW:
        share = _OF_FEW * rows / (rows + _EMPTY_ROWS)
    return max(weights / read, products / _PRODUCTS), max(
        weights / read_there, products / (_PRODUCTS * share)
    )


def strassen_share(rows: int, taken: int, made: int) -> float:
    """What the same takes by Strassen's algorithm, of the time of the direct way."""
    products = taken * made
    sums = (
        _OF_RESULTS / taken + _OF_ROWS / made + (_BESIDE_ROWS + _BESIDE_PRODUCTS / products) / rows
    )
    return _SEVEN_OF_EIGHT * (1 + sums)


def strassen_from(taken: int, made: int) -> int:
    """Of how many rows on that is surely less; 0 where it never is."""
    for_each_row = strassen_share(1, taken, made) - strassen_share(_MANY, taken, made)
    left = _WORTH - strassen_share(_MANY, taken, made)
    least = math.ceil(for_each_row / left) if left > 0 else 0
    return least if least < _MOST else 0


def pass_seconds(rows: int, channels: int, function: Activation) -> float:
    """Seconds that onnxruntime takes for what a product has done to its results by the way."""
    return rows * channels * (_PASS if function in _SHORT else _LONG_PASS)
