"""The work of an operator, estimated from shapes alone: the same number on every machine.

The unit is the time that an elementwise operator takes for one element. Measured with two threads
on a server, one multiplication and addition of a product takes about a thirty-second of it, and
reading a weight a half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Any

from fusionc.operators.facts import Trait, names_with

Dims = Sequence[int]
_PRODUCTS_AN_ELEMENT = 32
_WEIGHTS_AN_ELEMENT = 2
# The ends of the names of operators: onnxruntime has more of each kind.
_RECURRENT = tuple(names_with(Trait.RECURRENT))
_WINDOW_POOLS = tuple(names_with(Trait.WINDOW_POOL))
_READS_ALL = ("Reduce", "Arg", "Global", "TopK", "CumSum", "NonZero", "Unique", "Multinomial")
_WEIGHTS_AT = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}  # of others the second input


def node_work(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Dims | None], made: int
) -> int:
    """The work of one call that makes `made` elements. An input that is left out, or has an unknown
    shape, is None.
    """
    read = max((prod(dims) for dims in inputs[:1] if dims is not None), default=0)
    elements = max(made, read) if op.startswith(_READS_ALL) else made
    products = _products(op, attributes, inputs, made)
    weights = _weights(op, inputs)
    passed = 0 if not products or weights is None else prod(weights) // _WEIGHTS_AN_ELEMENT
    return elements + products // _PRODUCTS_AN_ELEMENT + passed


def _weights(op: str, inputs: Sequence[Dims | None]) -> Dims | None:
    place = next((place for name, place in _WEIGHTS_AT.items() if op.endswith(name)), 1)
    return inputs[place] if len(inputs) > place else None


def _products(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Dims | None], made: int
) -> int:
    """The multiplications of a product, or as many as take as long as a pool or a tree."""
    data = inputs[0] if inputs else None
    weights = _weights(op, inputs)
    if op.startswith("TreeEnsemble"):
        return _tree_products(attributes, data)
    if op.endswith(_WINDOW_POOLS) and not op.startswith("Global"):
        return made * prod(attributes.get("kernel_shape") or (1,))
    if op in ("DFT", "STFT"):
        return made * _length_of_transform(op, data, weights)
    return _weighted_products(op, attributes, data, weights, made) if data and weights else 0


def _tree_products(attributes: Mapping[str, Any], data: Dims | None) -> int:
    trees = attributes.get("nodes_treeids") or attributes.get("tree_roots") or (0,)
    rows = data[0] if data else 1
    return int(rows) * len(set(trees[:: max(1, len(trees) // 4096)])) * _PRODUCTS_AN_ELEMENT


def _length_of_transform(op: str, data: Dims | None, weights: Dims | None) -> int:
    """The length of a Fourier transform: that of its window if it has one, else of its signal."""
    if op == "STFT" and weights:
        return weights[0]
    return data[-2] if data and len(data) > 1 else 1


def _weighted_products(
    op: str, attributes: Mapping[str, Any], data: Dims, weights: Dims, made: int
) -> int:
    if "ConvTranspose" in op:
        return prod(data) * prod(weights[1:])
    if "Conv" in op:
        return made * prod(weights[1:])
    if "Gemm" in op:
        return made * data[0 if attributes.get("transA") else -1]
    if "MatMul" in op:
        return made * data[-1]
    if op.endswith(_RECURRENT):
        return prod(data[:-1]) * (
            prod(weights) + 4 * prod(weights[:-1]) * int(attributes.get("hidden_size", 0))
        )
    if op == "Einsum" or "Attention" in op:  # exact for the product of two matrices
        return 2 * isqrt(prod(data) * prod(weights) * made)
    return 0
