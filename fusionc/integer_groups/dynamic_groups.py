"""Groups of operators on 8-bit integers (bytes) that the model quantizes when it runs.

A group consists of a DynamicQuantizeLinear and the operators that read its results, directly or
through other operators, up to the first operators whose result is a float32 image.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.integer_groups.float_results import SCALED_PRODUCT
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT

_DYNAMIC = ("", "DynamicQuantizeLinear")
_JOINED = (MICROSOFT, "DynamicQuantizeMatMul")
# operators whose results are bytes, integers, scales or zero points
_INSIDE = frozenset(
    {"Add", "Cast", "ConvInteger", "MatMulInteger", "QuantizeLinear", "Slice", "Sub", "Transpose"}
)


def dynamic_groups(graph: Graph) -> list[frozenset[Node]]:
    """The groups of a graph. If the Add of a constant follows a group, it belongs to the group."""
    joined = graph.by_operator.get(_JOINED, ())
    quantizations = graph.by_operator.get(_DYNAMIC, ())
    return [
        *(frozenset([node]) for node in joined),
        *(frozenset(_readers_from(node)) for node in quantizations),
    ]


def multiplies_scales(node: Node) -> bool:
    """Whether a node multiplies the scale that a DynamicQuantizeLinear computes by that of
    weights.
    """
    makers = [v.producer for v in node.inputs if v is not None]
    return node.is_op("Mul") and any(
        maker is not None and maker.operator == _DYNAMIC for maker in makers
    )


def _readers_from(quantization: Node) -> Iterator[Node]:
    """A DynamicQuantizeLinear and the other operators of its group."""
    reached = {quantization: None}
    waiting = [quantization]
    while waiting:
        node = waiting.pop()
        for user in (u for v in node.outputs if v is not None for u in v.outputs):
            if user in reached:
                continue
            reached[user] = None
            if _is_inside(user):
                waiting.append(user)
                reached |= dict.fromkeys(_transposes(user, quantization))
            elif (total := _sum_with_bias(user)) is not None:
                reached[total] = None
    return iter(reached)


def _transposes(user: Node, quantization: Node) -> Iterator[Node]:
    """The Transpose of the image that `quantization` reads, if `user` is a QuantizeLinear of the
    transposed image.
    """
    read = user.inputs[0] if user.is_op("QuantizeLinear") else None
    maker = None if read is None else read.producer
    if maker is not None and maker.is_op("Transpose") and maker.inputs == quantization.inputs:
        yield maker


def _is_inside(node: Node) -> bool:
    """Whether the operators that read the result of a node belong to its group, too, because the
    result is not yet a float32 image.
    """
    if node.op == "DequantizeLinear" or multiplies_scales(node):
        return True
    return not node.domain and node.op in _INSIDE


def _sum_with_bias(product: Node) -> Node | None:
    """The Add of a constant that is the only reader of scaled sums; None if there is another
    reader, or if `product` does not scale sums.
    """
    result = product.outputs[0]
    if product.operator == SCALED_PRODUCT or not product.is_op("Mul") or result is None:
        return None
    if len(result.outputs) != 1 or result.is_output:
        return None
    (user,) = result.outputs
    others: list[Edge | None] = [v for v in user.inputs if v is not result]
    is_constant = all(v is not None and v.is_constant for v in others)
    return user if user.is_op("Add") and is_constant else None
