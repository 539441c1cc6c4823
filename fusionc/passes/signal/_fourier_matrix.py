"""The Fourier transform as a matrix, and the sizes for which a matrix product is faster."""

from __future__ import annotations

import numpy as np

from fusionc.exactness.decisions_ahead import JUMP, SIGN, TURN, decider_of
from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.rewrite import refuse

_MAX_BYTES = 4 << 20  # largest size of the matrix, which enlarges the model
_MAX_POWER_OF_TWO_ELEMENTS = 1 << 17  # of the matrix for a length that is a power of two


def fourier_matrix(length: int, parts: int, *, onesided: bool, inverse: bool = False) -> Array:
    """The matrix, in float64, that transforms a signal of `length` numbers with `parts` parts (1:
    real, 2: complex).

    Its shape is [length, parts, bins, 2]. With `onesided`, the bins that follow from the others are
    omitted. Refuses if the product would be slower than the transform, or the model much larger.
    """
    bins = length // 2 + 1 if onesided else length
    elements = length * parts * bins * 2
    is_power_of_two = length & (length - 1) == 0
    if elements * 4 > _MAX_BYTES or (is_power_of_two and elements > _MAX_POWER_OF_TWO_ELEMENTS):
        refuse("the transform is faster than a product with so large a matrix")
    turns = np.outer(np.arange(length), np.arange(bins)) % length / length
    angle = 2 * np.pi * turns * (1 if inverse else -1)
    of_real = np.stack([np.cos(angle), np.sin(angle)], -1)
    of_imaginary = np.stack([-np.sin(angle), np.cos(angle)], -1)
    matrix = np.stack([of_real, of_imaginary][:parts], 1)
    return matrix / length if inverse else matrix


def parts_of(size: object) -> int:
    """The number of parts of each signal element: 1 for real, 2 for complex signals. `size` is the
    last dimension of the signal. Refuses an unknown size.
    """
    if size not in (1, 2):
        refuse("whether the signal is real or complex is unknown")
    return 1 if size == 1 else 2


def require_continuous(spectrum: Edge) -> None:
    """Refuse a spectrum if a later result depends on the signs of its numbers, or divides by them.

    Where the transform returns imaginary parts of rounding noise, the matrix returns 0.
    """
    deciders = (decider_of(spectrum, kind) for kind in (JUMP, TURN, SIGN))
    if decider := next(filter(None, deciders), ""):
        refuse(f"{decider} follows, which decides by the last bit of parts that are nearly 0")
