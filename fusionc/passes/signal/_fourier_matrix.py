"""The matrix of the Fourier transform. For small sizes, a product with this matrix is faster than
the transform itself.
"""

from __future__ import annotations

import numpy as np

from fusionc.exactness.decisions_ahead import JUMP, NEGATIVE, SIGN, TURN, decider_of
from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.rewrite import refuse

_MAX_BYTES = 4 << 20  # largest size of the matrix, because the model stores it
_MAX_POWER_OF_TWO_ELEMENTS = 1 << 17  # the limit for powers of two, whose transform is fast


def fourier_matrix(length: int, parts: int, *, onesided: bool, inverse: bool = False) -> Array:
    """The float64 matrix that transforms a signal of `length` elements. `parts` is 1 for real
    elements, and 2 for complex ones (real and imaginary part).

    Its shape is [length, parts, bins, 2], where a bin is one frequency of the result. With
    `onesided`, only the first length // 2 + 1 bins are computed, because the others follow from
    them. Refuses a matrix with which the product would be slower than the transform, or the model
    much larger.
    """
    bins = length // 2 + 1 if onesided else length
    elements = length * parts * bins * 2
    is_power_of_two = length & (length - 1) == 0
    if elements * 4 > _MAX_BYTES or (is_power_of_two and elements > _MAX_POWER_OF_TWO_ELEMENTS):
        refuse("the transform is faster than a product with a matrix of this size")
    turns = np.outer(np.arange(length), np.arange(bins)) % length / length
    angle = 2 * np.pi * turns * (1 if inverse else -1)
    of_real = np.stack([np.cos(angle), np.sin(angle)], -1)
    of_imaginary = np.stack([-np.sin(angle), np.cos(angle)], -1)
    matrix = np.stack([of_real, of_imaginary][:parts], 1)
    return matrix / length if inverse else matrix


def parts_of(size: object) -> int:
    """The number of parts of each signal element: 1 for real signals, 2 for complex ones. `size` is
    the last dimension of the signal. Refuses an unknown size, and a size other than 1 and 2.
    """
    if size not in (1, 2):
        refuse("whether the signal is real or complex is unknown")
    return 1 if size == 1 else 2


def require_continuous(spectrum: Edge) -> None:
    """Refuse if a later operator depends on the signs of the spectrum's numbers, divides by them,
    or takes their roots or logarithms.

    If a part of the spectrum should be 0, the transform returns rounding noise, but the matrix may
    return 0. Such an operator would turn this small difference into a large one.
    """
    deciders = (decider_of(spectrum, kind) for kind in (JUMP, TURN, SIGN, NEGATIVE))
    if decider := next(filter(None, deciders), ""):
        refuse(f"the result of the later {decider} depends on the rounding of numbers near 0")
