"""Keep groups that onnxruntime computes in integers: refuse rewrites that would remove an operator
from such a group.

In floating point a group takes up to ten times as long. Therefore a convolution in a group does not
become a FusedConv, two equal matrix products with different quantizations are not merged, and a
kernel never contains a part of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from fusionc.integer_groups.group_parts import FAR, grade, is_core, way_to_quantizer
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import KERNELS
from fusionc.operators.integer_operators import DEQUANTIZE, INTEGERS, MADE, PASSED, QUANTIZE

# the operators that may be between a core and the QuantizeLinear of its result
_UP_TO_QUANTIZER = PASSED | {"Add", "Clip", "Relu"}
_CURRENT = Wiring()  # the graph without changes


def reason_to_keep_group(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why `nodes` must not be replaced by the nodes `new`. "" if they may be replaced. `pairs` are
    the old values with their replacements.
    """
    if not nodes or not has_groups(nodes[0].graph):
        return ""
    producers = (result.producer for _, result in pairs)
    shared = [producer for producer in producers if producer is not None and producer not in new]
    before = {
        node: level for node in _affected_cores(nodes, shared) if (level := grade(node, _CURRENT))
    }
    if any(node.domain == KERNELS for node in new):
        before = {node: level for node, level in before.items() if not _is_whole(node, set(nodes))}
    lost = (
        next(_lost_cores(before, Wiring(set(nodes), new, pairs), set(nodes), new), None)
        if before
        else None
    )
    return (
        ""
        if lost is None
        else f"onnxruntime computes {lost.op} in integers there, and no longer could"
    )


def _is_whole(core: Node, gone: Set[Node]) -> bool:
    """Whether a group is gone up to its quantization: its kernel computes in integers as well."""
    way = way_to_quantizer(core, _CURRENT)
    return bool(way) and all(node in gone for node in (core, *way))


def _lost_cores(
    before: Mapping[Node, int], wiring: Wiring, gone: Set[Node], new: Sequence[Node]
) -> Iterator[Node]:
    """The cores that were computed in integers `before` and are not after the rewrite. Removed
    nodes count only if the new nodes do not replace their integer computation.
    """
    yield from (
        node for node, level in before.items() if node not in gone and grade(node, wiring) < level
    )
    replaced = {node: level for node, level in before.items() if node in gone}
    gained = sum(grade(node, wiring) for node in new if is_core(node))
    if new and gained < sum(replaced.values()):
        yield from replaced


def nodes_in_groups(graph: Graph) -> set[Node]:
    """The nodes of a graph that are computed in integers, and all nodes from these to the
    QuantizeLinear of their result.
    """
    if not has_groups(graph):
        return set()
    cores = [node for node in graph.nodes if is_core(node) and grade(node, _CURRENT)]
    return {part for core in cores for part in (core, *way_to_quantizer(core, _CURRENT))}


def integer_groups(graph: Graph) -> list[frozenset[Node]]:
    """The groups with results of integers: the dequantizations that the core reads, the core, what
    follows up to the quantization, and quantizations of other numbers and pools of integers that
    only groups read.
    """
    if not has_groups(graph):
        return []
    groups = list[frozenset[Node]]()
    for core in graph.ordered():
        if core.operator not in MADE and is_core(core) and grade(core, _CURRENT) == INTEGERS:
            read = [v.producer for v in core.inputs if v is not None]
            before = [node for node in read if node is not None]
            groups.append(frozenset([*before, core, *way_to_quantizer(core, _CURRENT)]))
    inside = set[Node]().union(*groups)
    return [frozenset([*group, *_makers_for(group, inside)]) for group in groups]


def _makers_for(group: Iterable[Node], inside: Set[Node]) -> Iterator[Node]:
    """Quantizations and pools of integers that make what a group reads, and that only groups
    read.
    """
    for node in group:
        made = node.inputs[0]
        while made is not None and made.producer is not None and node.operator in DEQUANTIZE:
            maker = made.producer
            is_for_groups = not made.is_output and all(user in inside for user in made.outputs)
            if maker in inside or not is_for_groups:
                break
            if maker.operator in QUANTIZE:
                yield maker
                break
            if maker.operator != ("", "MaxPool"):
                break
            yield maker
            made = maker.inputs[0]


def has_groups(graph: Graph) -> bool:
    """Whether a graph has a DequantizeLinear."""
    return any(graph.by_operator.get(operator) for operator in DEQUANTIZE)


def _affected_cores(nodes: Iterable[Node], shared: Iterable[Node]) -> dict[Node, None]:
    """The cores whose groups may change if these nodes are replaced: among the nodes themselves,
    and before or after them.
    """
    cores = dict.fromkeys(node for node in (*nodes, *shared) if is_core(node))
    for node in nodes:
        if node.operator in QUANTIZE or (node.domain == "" and node.op in _UP_TO_QUANTIZER):
            cores.update(dict.fromkeys(_cores_upstream(node)))
        if node.operator in DEQUANTIZE or (node.domain == "" and node.op in PASSED):
            cores.update(dict.fromkeys(_cores_downstream(node)))
    return cores


def _cores_upstream(node: Node) -> Iterator[Node]:
    """The cores before a node, with only moves, activations and a bias between."""
    reached = [node]
    for _ in range(FAR):
        producers = dict.fromkeys(v.producer for n in reached for v in n.inputs if v is not None)
        reached = []
        for producer in filter(None, producers):
            if is_core(producer):
                yield producer
            if producer.domain == "" and producer.op in _UP_TO_QUANTIZER:
                reached.append(producer)


def _cores_downstream(node: Node) -> Iterator[Node]:
    """The cores after a node, with only moves between."""
    reached = [node]
    for _ in range(FAR):
        users = dict.fromkeys(
            u for n in reached for v in n.outputs if v is not None for u in v.outputs
        )
        yield from filter(is_core, users)
        reached = [user for user in users if user.domain == "" and user.op in PASSED]
