"""The work of an operator, estimated only from shapes, so that it is the same on every machine.

The unit is the time in which an elementwise operator computes one element. On a server with two
threads, a multiply-add of a product took 1/32 of this time, and reading a weight took 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Any

from fusionc.operators.facts import Trait, names_with

Dims = Sequence[int]
_PRODUCTS_PER_UNIT = 32  # multiply-adds of a product in one unit of work
_WEIGHTS_PER_UNIT = 2  # weights that are read in one unit of work
# Operators are recognized by the beginning or end of their names, so that onnxruntime's own
# operators are recognized, too.
_RECURRENT = tuple(names_with(Trait.RECURRENT))
_WINDOW_POOLS = tuple(names_with(Trait.WINDOW_POOL))
_READS_ALL = ("Reduce", "Arg", "Global", "TopK", "CumSum", "NonZero", "Unique", "Multinomial")
# the position of the weights; for other operators, they are the second input
_WEIGHTS_POSITION = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}


def node_work(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Dims | None], output_elements: int
) -> int:
    """The work of one call of an operator. `inputs` are the dimensions of its inputs; None for an
    input that is omitted or whose shape is unknown. `output_elements` is the number of elements
    that it returns.
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
    """The number of multiply-adds of a product. For a pool, a tree or a Fourier transform, the
    number of multiply-adds that would take as long.
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
    """The length of a Fourier transform: the length of its window if it has one, else the length of
    the signal.
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
    if op == "Einsum" or "Attention" in op:  # exact for an Einsum that multiplies two matrices
        return 2 * isqrt(prod(data) * prod(weights) * output_elements)
    return 0
