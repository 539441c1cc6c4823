"""Constants of factors and matrix products whose effect on rounding is known."""

from __future__ import annotations

import math

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array

_MUCH = 2.0**12  # a rounding error of float32 times this factor is more than 1e-4
_MANY = 2**16  # constants with more elements are not examined: they are trained weights
_FEW = 64  # these many elements are examined first, because few constants pass


def is_power_of_two(array: Array) -> bool:
    """Whether every element is ±2ⁿ."""
    mantissa, _ = np.frexp(np.abs(array.astype(np.float64)))
    return bool(array.size and math.isfinite(float(mantissa.sum())) and (mantissa == 0.5).all())


def multiplies_much(node: Node) -> bool:
    """Whether a node multiplies by a constant so large that rounding errors become visible."""
    if node.op == "HardSigmoid":
        return abs(float(node.attr("alpha"))) >= _MUCH
    factors = [array for value in node.inputs if (array := _small_constant(value)) is not None]
    if node.op == "Mul":
        return any((np.abs(factor) >= _MUCH).any() for factor in factors)
    return node.op == "Div" and any((np.abs(factor) <= 1 / _MUCH).any() for factor in factors)


def picks_and_adds(product: Node) -> bool:
    """Whether all weights of a matrix product or convolution are 0, 1 or −1, so that it permutes,
    adds and subtracts elements.
    """
    weights = [
        array for value in product.inputs[:2] if (array := _small_constant(value)) is not None
    ]
    return bool(weights) and all(map(_are_signs, weights))


def _are_signs(array: Array) -> bool:
    return all(np.isin(part, (-1, 0, 1)).all() for part in (array.reshape(-1)[:_FEW], array))


def _small_constant(value: Edge | None) -> Array | None:
    """The elements of a constant with few floating-point elements; None for any other value."""
    array = None if value is None else value.constant()
    if array is None or array.dtype.kind != "f" or not 0 < array.size <= _MANY:
        return None
    return array
