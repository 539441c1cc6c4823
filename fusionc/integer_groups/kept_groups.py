"""Would a rewrite take an operator out of a group that onnxruntime computes in integers?

In floating-point numbers the same takes up to ten times as long. So a convolution does not become a
FusedConv there, equal products that are quantized in two ways stay two, and no kernel has a part of
a group in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from fusionc.integer_groups.group_parts import FAR, grade, is_core, way_to_quantizer
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.integer_operators import DEQUANTIZE, PASSED, QUANTIZE

# between an operator and the quantization of what it makes
_BEHIND = PASSED | {"Add", "Clip", "Relu"}
_AS_IT_IS = Wiring()


def reason_to_keep_group(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why nodes must not be replaced by others, with values in the place of theirs; "" where they
    may be.
    """
    if not nodes or not has_groups(nodes[0].graph):
        return ""
    makers = (made.producer for _, made in pairs)
    shared = [maker for maker in makers if maker is not None and maker not in new]
    before = {node: found for node in _near(nodes, shared) if (found := grade(node, _AS_IT_IS))}
    lost = (
        next(_lost(before, Wiring(set(nodes), new, pairs), set(nodes), new), None)
        if before
        else None
    )
    return (
        ""
        if lost is None
        else f"onnxruntime computes {lost.op} in integers there, and could not any more"
    )


def _lost(
    before: Mapping[Node, int], wiring: Wiring, gone: Set[Node], new: Sequence[Node]
) -> Iterator[Node]:
    """The operators that were computed in integers `before`, and are not in this wiring; what is
    gone may have become another one.
    """
    yield from (
        node for node, found in before.items() if node not in gone and grade(node, wiring) < found
    )
    replaced = {node: found for node, found in before.items() if node in gone}
    made = sum(grade(node, wiring) for node in new if is_core(node))
    if new and made < sum(replaced.values()):
        yield from replaced


def in_groups(graph: Graph) -> set[Node]:
    """The operators that are computed in integers, and those between them and the quantization
    behind them.
    """
    if not has_groups(graph):
        return set()
    cores = [node for node in graph.nodes if is_core(node) and grade(node, _AS_IT_IS)]
    return {part for core in cores for part in (core, *way_to_quantizer(core, _AS_IT_IS))}


def has_groups(graph: Graph) -> bool:
    """Whether anything is dequantized in a graph at all."""
    return any(graph.by_operator.get(operator) for operator in DEQUANTIZE)


def _near(nodes: Iterable[Node], shared: Iterable[Node]) -> dict[Node, None]:
    """The operators whose groups may change with these: they themselves, and what lies before or
    behind.
    """
    found = dict.fromkeys(node for node in (*nodes, *shared) if is_core(node))
    for node in nodes:
        if node.operator in QUANTIZE or (node.domain == "" and node.op in _BEHIND):
            found.update(dict.fromkeys(_before(node)))
        if node.operator in DEQUANTIZE or (node.domain == "" and node.op in PASSED):
            found.update(dict.fromkeys(_after(node)))
    return found


def _before(node: Node) -> Iterator[Node]:
    """The operators whose results come to a node with nothing but moves, activations and a bias
    between.
    """
    reached = [node]
    for _ in range(FAR):
        makers = dict.fromkeys(v.producer for n in reached for v in n.inputs if v is not None)
        reached = []
        for maker in filter(None, makers):
            if is_core(maker):
                yield maker
            if maker.domain == "" and maker.op in _BEHIND:
                reached.append(maker)


def _after(node: Node) -> Iterator[Node]:
    """The operators that read what a node makes, with nothing but moves between."""
    reached = [node]
    for _ in range(FAR):
        users = dict.fromkeys(
            u for n in reached for v in n.outputs if v is not None for u in v.outputs
        )
        yield from filter(is_core, users)
        reached = [user for user in users if user.domain == "" and user.op in PASSED]
