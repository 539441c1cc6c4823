"""Convolutions and products in float32 that read or make quantized values.

A grid is the set of values that a quantized tensor can represent: the multiples of its scale.
"""

from __future__ import annotations

from fusionc.graph_kernel.blocked.image_operators import CONVOLVING
from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.integer_operators import DEQUANTIZE, QUANTIZE


def products_near_grids(graph: Graph) -> set[Node]:
    """The convolutions and products that read dequantized values, or whose results reach a
    quantization before they reach another convolution or product.

    An algorithm with fewer multiplications rounds more than a plain sum of products does. Sums of
    values on grids are often exact, so that the algorithm would move many results to other
    multiples of the scale.
    """
    products = {node for node in graph.nodes if node.operator in CONVOLVING}
    reached = set[Node]()
    pending = [node for node in graph.nodes if node.operator in QUANTIZE]
    while pending:
        makers = set(filter(None, map(_float_maker, pending.pop().inputs))) - reached
        reached |= makers
        pending.extend(makers - products)
    reads_grid = {node for node in products if _is_dequantized(node.inputs[0])}
    return reads_grid | (reached & products)


def _float_maker(value: Edge | None) -> Node | None:
    """The operator that computes a value. `None` if the value is dequantized from integers."""
    return None if value is None or _is_dequantized(value) else value.producer


def _is_dequantized(value: Edge | None) -> bool:
    maker = None if value is None else value.producer
    return maker is not None and maker.operator in DEQUANTIZE
