"""Find out how a constant factor, or the constant weights of a product, change rounding errors: a
power of two adds no error, a large factor makes errors visible, and integer weights keep integers
exact.
"""

from __future__ import annotations

import math

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.deciding_operators import PRODUCTS

_MUCH = 2.0**12  # a relative rounding error of float32 times this factor is above 1e-4
_MANY = 2**16  # larger constants are not examined, because they usually are trained weights
_FEW = 64  # the number of elements that are examined first, because they reject most constants


def is_power_of_two(array: Array) -> bool:
    """Whether an array is not empty and every element is ±2ⁿ."""
    mantissa, _ = np.frexp(np.abs(array.astype(np.float64)))
    return bool(array.size and math.isfinite(float(mantissa.sum())) and (mantissa == 0.5).all())


def multiplies_much(node: Node) -> bool:
    """Whether a node multiplies by a constant so large that rounding errors become visible."""
    return any(bool((np.abs(factor) >= _MUCH).any()) for factor in _factors(node))


def _factors(node: Node) -> list[Array]:
    """The known constants by which a node multiplies its input."""
    if node.op == "HardSigmoid":
        return [np.array(node.attr("alpha"))]
    constants = [_small_constant(value) for value in node.inputs]
    if node.op == "BatchNormalization":
        scale, variance = (constants[at] for at in (1, 4))
        if scale is None or variance is None:
            return []
        with np.errstate(all="ignore"):
            return [scale / np.sqrt(variance + float(node.attr("epsilon")))]
    known = [array for array in constants if array is not None]
    if node.op == "Div":
        with np.errstate(divide="ignore"):
            return [1 / array for array in known]
    return known if node.op == "Mul" else []


def picks_and_adds(product: Node) -> bool:
    """Whether a node is a matrix product or convolution that only moves, adds and subtracts
    elements, because all its weights are 0, 1 or −1.
    """
    return has_whole_weights(product) and not any(
        (np.abs(weights) > 1).any() for weights in _weights_of(product)
    )


def has_whole_weights(product: Node) -> bool:
    """Whether a node is a matrix product or convolution whose constant weights are integers stored
    as floating-point numbers.
    """
    weights = _weights_of(product) if product.op in PRODUCTS else []
    return bool(weights) and all(map(_is_whole, weights))


def _weights_of(product: Node) -> list[Array]:
    return [w for value in product.inputs[:2] if (w := _small_constant(value)) is not None]


def _is_whole(array: Array) -> bool:
    parts = (array.reshape(-1)[:_FEW], array)
    return all(bool((part == np.trunc(part)).all()) for part in parts)


def _small_constant(value: Edge | None) -> Array | None:
    """The elements of a constant with few floating-point elements; None for any other value."""
    if value is None or not value.is_constant:
        return None
    sizes = [size for size in value.shape or () if isinstance(size, int)]
    # check the size first, so that a large constant is never read from the file
    if not 0 < math.prod(sizes) <= _MANY:
        return None
    array = value.constant()
    return array if array is not None and array.dtype.kind == "f" else None
