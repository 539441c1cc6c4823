"""The Fourier transform as a matrix, and when a product with it is faster than the transform."""

from __future__ import annotations

import numpy as np

from fusionc.exactness.decisions_ahead import JUMP, SIGN, TURN, decider_of
from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.rewrite import refuse

_BYTES = 4 << 20  # of the matrix, by which the model may grow
_POWER_OF_TWO = 1 << 17  # elements of the matrix: for these lengths onnxruntime is fast


def fourier_matrix(length: int, parts: int, *, onesided: bool, inverse: bool = False) -> Array:
    """The factor of a signal of `length` numbers with `parts` parts (1: real, 2: complex), in
    float64.

    Its shape is [length, parts, bins, 2]; `onesided` leaves out the bins that follow from the
    others. Refuses if the product would be slower, or the model much larger.
    """
    bins = length // 2 + 1 if onesided else length
    elements = length * parts * bins * 2
    is_power_of_two = length & (length - 1) == 0
    if elements * 4 > _BYTES or (is_power_of_two and elements > _POWER_OF_TWO):
        refuse("the transform is faster than a product with so large a matrix")
    turns = np.outer(np.arange(length), np.arange(bins)) % length / length
    angle = 2 * np.pi * turns * (1 if inverse else -1)
    of_real = np.stack([np.cos(angle), np.sin(angle)], -1)
    of_imaginary = np.stack([-np.sin(angle), np.cos(angle)], -1)
    matrix = np.stack([of_real, of_imaginary][:parts], 1)
    return matrix / length if inverse else matrix


def parts_of(size: object) -> int:
    """The parts of one element of a signal: 1 if it is real, 2 if complex. Refuses if the last
    dimension does not tell.
    """
    if size not in (1, 2):
        refuse("whether the signal is real or complex is unknown")
    return 1 if size == 1 else 2


def require_continuous(spectrum: Edge) -> None:
    """Refuse a spectrum whose signs decide something, or by which something is divided: if the
    transform has noise, the matrix makes imaginary parts of 0.
    """
    deciders = (decider_of(spectrum, kind) for kind in (JUMP, TURN, SIGN))
    if decider := next(filter(None, deciders), ""):
        refuse(f"{decider} follows, which decides by the last bit of parts that are nearly 0")
