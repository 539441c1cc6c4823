"""The work of an operator, estimated from shapes only, so it is the same number on every machine.

The unit is the time of an elementwise operator for one element. Measured on a server with two
threads, a multiply-add of a product takes 1/32 of a unit, and reading a weight 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Any

from fusionc.operators.facts import Trait, names_with

Dims = Sequence[int]
_PRODUCTS_PER_UNIT = 32  # multiplications of a product in one unit
_WEIGHTS_PER_UNIT = 2  # weights that are read in one unit
# The beginning or end of its name identifies the kind of an operator, even for onnxruntime's own
# operators.
_RECURRENT = tuple(names_with(Trait.RECURRENT))
_WINDOW_POOLS = tuple(names_with(Trait.WINDOW_POOL))
_READS_ALL = ("Reduce", "Arg", "Global", "TopK", "CumSum", "NonZero", "Unique", "Multinomial")
# positions of the weights; the second input for other operators
_WEIGHTS_POSITION = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}


def node_work(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Dims | None], output_elements: int
) -> int:
    """The work of one call that returns `output_elements` elements. An input is None if it is
    omitted or has an unknown shape.
    """
    input_elements = max((prod(dims) for dims in inputs[:1] if dims is not None), default=0)
    elements = (
        max(output_elements, input_elements) if op.startswith(_READS_ALL) else output_elements
    )
    products = _products(op, attributes, inputs, output_elements)
    weights = _weights(op, inputs)
    weight_work = 0 if not products or weights is None else prod(weights) // _WEIGHTS_PER_UNIT
    return elements + products // _PRODUCTS_PER_UNIT + weight_work


def _weights(op: str, inputs: Sequence[Dims | None]) -> Dims | None:
    position = next(
        (position for name, position in _WEIGHTS_POSITION.items() if op.endswith(name)), 1
    )
    return inputs[position] if len(inputs) > position else None


def _products(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Dims | None], output_elements: int
) -> int:
    """How many multiplications a product takes; for a pool or a tree, how many take the same
    time.
    """
    data = inputs[0] if inputs else None
    weights = _weights(op, inputs)
    if op.startswith("TreeEnsemble"):
        return _tree_products(attributes, data)
    if op.endswith(_WINDOW_POOLS) and not op.startswith("Global"):
        return output_elements * prod(attributes.get("kernel_shape") or (1,))
    if op in ("DFT", "STFT"):
        return output_elements * _length_of_transform(op, data, weights)
    return (
        _weighted_products(op, attributes, data, weights, output_elements)
        if data and weights
        else 0
    )


def _tree_products(attributes: Mapping[str, Any], data: Dims | None) -> int:
    trees = attributes.get("nodes_treeids") or attributes.get("tree_roots") or (0,)
    rows = data[0] if data else 1
    return int(rows) * len(set(trees[:: max(1, len(trees) // 4096)])) * _PRODUCTS_PER_UNIT


def _length_of_transform(op: str, data: Dims | None, weights: Dims | None) -> int:
    """The length of a Fourier transform: that of the window, or without a window that of the
    signal.
    """
    if op == "STFT" and weights:
        return weights[0]
    return data[-2] if data and len(data) > 1 else 1


def _weighted_products(
    op: str, attributes: Mapping[str, Any], data: Dims, weights: Dims, output_elements: int
) -> int:
    if "ConvTranspose" in op:
        return prod(data) * prod(weights[1:])
    if "Conv" in op:
        return output_elements * prod(weights[1:])
    if "Gemm" in op:
        return output_elements * data[0 if attributes.get("transA") else -1]
    if "MatMul" in op:
        return output_elements * data[-1]
    if op.endswith(_RECURRENT):
        return prod(data[:-1]) * (
            prod(weights) + 4 * prod(weights[:-1]) * int(attributes.get("hidden_size", 0))
        )
    if op == "Einsum" or "Attention" in op:  # this is exact for an Einsum of two matrices
        return 2 * isqrt(prod(data) * prod(weights) * output_elements)
    return 0
