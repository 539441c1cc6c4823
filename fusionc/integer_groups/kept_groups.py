"""Refuse rewrites that would remove an operator from a group that onnxruntime computes in integers.
A group consists of an operator (the core), the DequantizeLinear nodes before it, and the
QuantizeLinear after it.

In floating point, a group takes up to ten times as long. Therefore, for example, a convolution in a
group does not become a FusedConv, two equal matrix products are not merged if their results are
quantized in different ways, and a generated kernel computes a whole group or no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from fusionc.integer_groups.float_results import READERS, groups_with_float_results
from fusionc.integer_groups.group_parts import FAR, grade, is_core, way_to_quantizer
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import KERNELS
from fusionc.operators.integer_operators import (
    DEQUANTIZE,
    INTEGERS,
    MADE,
    ON_INTEGERS,
    PASSED,
    QUANTIZE,
)

# the operators that may be between a core and the QuantizeLinear of its result
_UP_TO_QUANTIZER = PASSED | {"Add", "Clip", "Relu"}
# operators that also work on integers, without dequantization
OF_INTEGERS = frozenset({"Clip", "Max", "MaxPool", "Min"})
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
    before = _outside_kernel(before, set(nodes), new)
    lost = (
        next(_lost_cores(before, Wiring(set(nodes), new, pairs), set(nodes), new), None)
        if before
        else None
    )
    return (
        ""
        if lost is None
        else f"onnxruntime could no longer compute {lost.op} in integers after the rewrite"
    )


def _outside_kernel(
    cores: dict[Node, int], gone: Set[Node], new: Iterable[Node]
) -> dict[Node, int]:
    """The cores that a new kernel does not compute. If a rewrite adds a generated kernel and
    removes a whole group, the kernel computes this group in integers, too.
    """
    if not any(node.domain == KERNELS for node in new):
        return cores
    ways = {core: way_to_quantizer(core, _CURRENT) for core in cores}
    whole = {core for core, way in ways.items() if gone >= {core, *way}}
    return {core: level for core, level in cores.items() if core not in whole}


def _lost_cores(
    before: Mapping[Node, int], wiring: Wiring, gone: Set[Node], new: Sequence[Node]
) -> Iterator[Node]:
    """The cores that are computed in integers `before` the rewrite, but not after it. A removed
    core is not lost if the new nodes do the same computation in integers.
    """
    yield from (
        node for node, level in before.items() if node not in gone and grade(node, wiring) < level
    )
    replaced = {node: level for node, level in before.items() if node in gone}
    gained = sum(grade(node, wiring) for node in new if is_core(node))
    if new and gained < sum(replaced.values()):
        yield from replaced


def nodes_in_groups(graph: Graph) -> set[Node]:
    """The nodes of a graph that are computed in integers, and the nodes after each of them up to
    the QuantizeLinear of its result.
    """
    if not has_groups(graph):
        return set()
    cores = [node for node in graph.nodes if is_core(node) and grade(node, _CURRENT)]
    return {part for core in cores for part in (core, *way_to_quantizer(core, _CURRENT))}


def integer_groups(graph: Graph) -> list[frozenset[Node]]:
    """The groups of a graph that can be computed in integers. A group is an operator on integers,
    or a core with the DequantizeLinear nodes before it and, if its result is quantized, the nodes
    up to the QuantizeLinear. A group also contains the QuantizeLinear nodes and the operators on
    integers, such as pools, that produce its inputs, if only groups read their results.
    """
    groups = [frozenset([node]) for op in ON_INTEGERS for node in graph.by_operator.get(op, ())]
    if has_groups(graph):
        groups += [_group_of(core) for core in graph.ordered() if _has_group(core)]
    groups += groups_with_float_results(graph)
    inside = set[Node]().union(*groups)
    return [frozenset([*group, *_makers_for(group, inside)]) for group in groups]


def _has_group(core: Node) -> bool:
    return core.operator not in MADE and is_core(core) and grade(core, _CURRENT) == INTEGERS


def _group_of(core: Node) -> frozenset[Node]:
    before = filter(None, (v.producer for v in core.inputs if v is not None))
    return frozenset([*before, core, *way_to_quantizer(core, _CURRENT)])


def _makers_for(group: Iterable[Node], inside: Set[Node]) -> Iterator[Node]:
    """The quantizations and operators on integers that compute the inputs of a group, if only
    groups read their results.
    """
    readers = DEQUANTIZE | ON_INTEGERS | READERS
    for node in (node for node in group if node.operator in readers):
        reader = node
        while (maker := _maker_for_groups(reader, inside)) is not None:
            yield maker
            if maker.operator in QUANTIZE:
                break
            reader = maker


def _maker_for_groups(reader: Node, inside: Set[Node]) -> Node | None:
    """The QuantizeLinear, or operator on integers, that computes the first input of `reader`. None
    if another operator computes it, if the node is already in a group, or if its result is also
    used outside of groups.
    """
    image = reader.inputs[0]
    maker = None if image is None else image.producer
    if image is None or maker is None or maker in inside or image.is_output:
        return None
    is_known = maker.operator in QUANTIZE or (maker.domain == "" and maker.op in OF_INTEGERS)
    is_for_groups = all(user in inside or user is reader for user in image.outputs)
    return maker if is_known and is_for_groups else None


def has_groups(graph: Graph) -> bool:
    """Whether a graph has a DequantizeLinear."""
    return any(graph.by_operator.get(operator) for operator in DEQUANTIZE)


def _affected_cores(nodes: Iterable[Node], shared: Iterable[Node]) -> dict[Node, None]:
    """The cores whose groups may change if these nodes are replaced: cores among these nodes,
    before them, and after them.
    """
    cores = dict.fromkeys(node for node in (*nodes, *shared) if is_core(node))
    for node in nodes:
        if node.operator in QUANTIZE or (node.domain == "" and node.op in _UP_TO_QUANTIZER):
            cores.update(dict.fromkeys(_cores_upstream(node)))
        if node.operator in DEQUANTIZE or (node.domain == "" and node.op in PASSED):
            cores.update(dict.fromkeys(cores_downstream(node)))
    return cores


def _cores_upstream(node: Node) -> Iterator[Node]:
    """The cores before a node, with only moves, activations and the addition of a bias in
    between.
    """
    reached = [node]
    for _ in range(FAR):
        producers = dict.fromkeys(v.producer for n in reached for v in n.inputs if v is not None)
        reached = []
        for producer in filter(None, producers):
            if is_core(producer):
                yield producer
            if producer.domain == "" and producer.op in _UP_TO_QUANTIZER:
                reached.append(producer)


def cores_downstream(node: Node) -> Iterator[Node]:
    """The cores after a node, with only moves in between."""
    reached = [node]
    for _ in range(FAR):
        users = dict.fromkeys(
            u for n in reached for v in n.outputs if v is not None for u in v.outputs
        )
        yield from filter(is_core, users)
        reached = [user for user in users if user.domain == "" and user.op in PASSED]
