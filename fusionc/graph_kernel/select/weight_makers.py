"""The operators that compute weights from constants, such as DequantizeLinear. They become part of
an area, so that its kernel reads these constants, which are smaller than the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusionc.model.graph import Edge, Node

_MAKERS = frozenset({"DequantizeLinear", "Cast", "Add", "Sub", "Mul", "Reshape"})
_LONGEST = 5  # operators in a chain: Cast, Reshape, Sub, Mul, Reshape


def weight_makers(weights: Edge) -> list[Node]:
    """The chain of operators that computes weights from constants of the operators' graph, in
    order. Empty if the weights are constants themselves, or are computed in another way.
    """
    makers = list[Node]()
    value = weights
    while not value.is_constant:
        maker = value.producer
        if maker is None or not _is_maker(maker) or len(makers) == _LONGEST:
            return []
        makers.append(maker)
        operands = [v for v in maker.inputs if v is not None]
        computed = [v for v in operands if not v.is_constant]
        if len(computed) > 1:
            return []
        value = (computed or operands)[0]
    return makers[::-1]


def _is_maker(node: Node) -> bool:
    """Whether a node can be in such a chain: its operator is known, and all its inputs belong to
    the node's own graph.
    """
    is_known = not node.domain and node.op in _MAKERS
    return is_known and all(v is None or v.graph is node.graph for v in node.inputs)


def constants_of_makers(makers: Iterable[Node]) -> Iterator[Edge]:
    """The constants of these operators that a kernel reads. The shapes of Reshapes are not read."""
    for node in makers:
        operands = node.inputs[:1] if node.op == "Reshape" else node.inputs
        yield from (v for v in operands if v is not None and v.is_constant)
