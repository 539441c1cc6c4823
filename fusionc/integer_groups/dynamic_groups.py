"""Groups whose bytes are quantized at run time: a DynamicQuantizeLinear and all operators that read
its results, up to the first ones whose result is an image of float32.
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
    """The groups of a graph. A sum with a constant after them belongs to them, too."""
    joined = graph.by_operator.get(_JOINED, ())
    quantizations = graph.by_operator.get(_DYNAMIC, ())
    return [
        *(frozenset([node]) for node in joined),
        *(frozenset(_readers_from(node)) for node in quantizations),
    ]


def multiplies_scales(node: Node) -> bool:
    """Whether an operator multiplies the scale of bytes by that of weights."""
    makers = [v.producer for v in node.inputs if v is not None]
    return node.is_op("Mul") and any(
        maker is not None and maker.operator == _DYNAMIC for maker in makers
    )


def _readers_from(quantization: Node) -> Iterator[Node]:
    """A quantization and the operators that read its results."""
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
    """The Transpose of the image, if a QuantizeLinear reads it with the same scale."""
    read = user.inputs[0] if user.is_op("QuantizeLinear") else None
    maker = None if read is None else read.producer
    if maker is not None and maker.is_op("Transpose") and maker.inputs == quantization.inputs:
        yield maker


def _is_inside(node: Node) -> bool:
    """Whether the result of an operator is not yet an image of float32."""
    if node.op == "DequantizeLinear" or multiplies_scales(node):
        return True
    return not node.domain and node.op in _INSIDE


def _sum_with_bias(product: Node) -> Node | None:
    """The operator that adds a constant to scaled sums, if only it reads them."""
    result = product.outputs[0]
    if product.operator == SCALED_PRODUCT or not product.is_op("Mul") or result is None:
        return None
    if len(result.outputs) != 1 or result.is_output:
        return None
    (user,) = result.outputs
    others: list[Edge | None] = [v for v in user.inputs if v is not result]
    is_constant = all(v is not None and v.is_constant for v in others)
    return user if user.is_op("Add") and is_constant else None
