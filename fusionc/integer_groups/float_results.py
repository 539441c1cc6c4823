"""Groups of a convolution or product that reads integers and has a float32 result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fusionc.integer_groups.group_parts import grade
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.operators.integer_operators import BYTES, DEQUANTIZE, INTEGERS

SCALED_PRODUCT = (MICROSOFT, "MatMulIntegerToFloat")
# the operators with which such a group may begin if it does not begin with a DequantizeLinear
READERS = frozenset({SCALED_PRODUCT, ("", "Transpose")})
_CORES = frozenset(
    {("", "Conv"), ("", "MatMul"), ("", "Gemm"), (MICROSOFT, "FusedConv"), SCALED_PRODUCT}
)


def groups_with_float_results(graph: Graph) -> list[frozenset[Node]]:
    """The groups of a graph whose result is float32. Such a group is either a core (a Conv, MatMul,
    Gemm or FusedConv) with the nodes that dequantize its operands, or a MatMulIntegerToFloat with
    the operators that move its channels to the last axis and back.
    """
    if not any(graph.by_operator.get(operator) for operator in (*DEQUANTIZE, SCALED_PRODUCT)):
        return []
    groups = list[frozenset[Node]]()
    for node in graph.ordered():
        if node.operator == SCALED_PRODUCT:
            groups.append(frozenset([node, *_moves_around(node)]))
        elif node.operator in _CORES and grade(node, Wiring()) != INTEGERS:
            image, weights, *more = map(_dequantizations, node.inputs)
            if image and weights:
                groups.append(frozenset(chain([node], image, weights, *more)))
    return groups


def _dequantizations(value: Edge | None) -> list[Node]:
    """The nodes that dequantize a value: a DequantizeLinear, or a Cast of weights and a Mul by
    their scale. Empty if the value is not dequantized.
    """
    maker = None if value is None else value.producer
    if maker is None or maker.operator in DEQUANTIZE:
        return [] if maker is None else [maker]
    casts = casts_of_weights(maker)
    return [maker, *casts] if casts else []


def casts_of_weights(product: Node) -> list[Node]:
    """The Cast of constant 8-bit weights that a Mul scales; empty for other nodes."""
    first = product.inputs[0] if product.is_op("Mul") else None
    cast = None if first is None else first.producer
    return [cast] if cast is not None and is_cast_of_weights(cast) else []


def is_cast_of_weights(node: Node) -> bool:
    """Whether a node casts an 8-bit constant. This is the first half of a dequantization."""
    value = node.inputs[0] if node.is_op("Cast") else None
    return value is not None and value.is_constant and value.elem_type in BYTES


def _moves_around(product: Node) -> Iterator[Node]:
    """The Transpose and Slice before a product, and the Transpose after it. If the Transpose after
    it reads a sum of two products, also the sum, the other product, and the Transpose and Slice
    before the other product. Empty if no Transpose follows.
    """
    before = list(_moves_before(product.inputs[0]))
    user = _only_user(product)
    if not before or user is None:
        return
    last = _only_user(user) if user.is_op("Add") else user
    if last is not None and last.is_op("Transpose"):
        yield from (*before, last)
        yield from _sum_of_products(user) if last is not user else ()


def _sum_of_products(total: Node) -> Iterator[Node]:
    """A sum, the products that it adds, and the Transpose and Slice before each product."""
    yield total
    for product in (v.producer for v in total.inputs if v is not None):
        if product is not None and product.operator == SCALED_PRODUCT:
            yield product
            yield from _moves_before(product.inputs[0])


def _only_user(node: Node) -> Node | None:
    result = node.outputs[0]
    is_private = result is not None and len(result.outputs) == 1 and not result.is_output
    return result.outputs[0] if result is not None and is_private else None


def _moves_before(rows: Edge | None) -> Iterator[Node]:
    maker = None if rows is None else rows.producer
    if maker is not None and maker.is_op("Slice"):
        yield maker
        maker = None if maker.inputs[0] is None else maker.inputs[0].producer
    if maker is not None and maker.is_op("Transpose"):
        yield maker
