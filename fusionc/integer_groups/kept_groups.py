"""Would a rewrite take an operator out of a group that onnxruntime computes in integers?

In floating-point numbers a group takes up to ten times as long. So a convolution in a group does
not become a FusedConv, equal products that are quantized in two ways stay two, and no kernel
contains a part of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from fusionc.integer_groups.group_parts import FAR, grade, is_core, way_to_quantizer
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import KERNELS, MICROSOFT
from fusionc.operators.integer_operators import DEQUANTIZE, INTEGERS, MADE, PASSED, QUANTIZE

# the operators between a core and the quantization of its result
_UP_TO_QUANTIZER = PASSED | {"Add", "Clip", "Relu"}
# operators on integers that are groups by themselves
ON_INTEGERS = frozenset(
    {
        ("", "QLinearConv"),
        ("", "QLinearMatMul"),
        (MICROSOFT, "QGemm"),
        (MICROSOFT, "QLinearAdd"),
        (MICROSOFT, "QLinearGlobalAveragePool"),
    }
)
_OF_INTEGERS = frozenset({"Clip", "Max", "MaxPool", "Min"})  # they need no dequantization
_AS_IT_IS = Wiring()


def reason_to_keep_group(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why `nodes` must not be replaced by `new`, "" if they may be; `pairs` are the old values with
    their replacements.
    """
    if not nodes or not has_groups(nodes[0].graph):
        return ""
    makers = (made.producer for _, made in pairs)
    shared = [maker for maker in makers if maker is not None and maker not in new]
    before = {
        node: level for node in _affected_cores(nodes, shared) if (level := grade(node, _AS_IT_IS))
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
        else f"onnxruntime computes {lost.op} in integers there, and could not any more"
    )


def _outside_kernel(
    cores: dict[Node, int], gone: Set[Node], new: Iterable[Node]
) -> dict[Node, int]:
    """The cores without those that are gone with all up to their quantization, if a kernel is new:
    it computes these groups in integers as well.
    """
    if not any(node.domain == KERNELS for node in new):
        return cores
    ways = {core: way_to_quantizer(core, _AS_IT_IS) for core in cores}
    whole = {core for core, way in ways.items() if way and gone >= {core, *way}}
    return {core: level for core, level in cores.items() if core not in whole}


def _lost_cores(
    before: Mapping[Node, int], wiring: Wiring, gone: Set[Node], new: Sequence[Node]
) -> Iterator[Node]:
    """The operators that were computed in integers `before` and are not in this wiring. A node that
    is gone may have become another one.
    """
    yield from (
        node for node, level in before.items() if node not in gone and grade(node, wiring) < level
    )
    replaced = {node: level for node, level in before.items() if node in gone}
    made = sum(grade(node, wiring) for node in new if is_core(node))
    if new and made < sum(replaced.values()):
        yield from replaced


def nodes_in_groups(graph: Graph) -> set[Node]:
    """The operators that are computed in integers, and those between them and the quantization that
    follows.
    """
    if not has_groups(graph):
        return set()
    cores = [node for node in graph.nodes if is_core(node) and grade(node, _AS_IT_IS)]
    return {part for core in cores for part in (core, *way_to_quantizer(core, _AS_IT_IS))}


def integer_groups(graph: Graph) -> list[frozenset[Node]]:
    """The groups with results of integers: an operator on integers; or the dequantizations that the
    core reads, the core, and what follows up to the quantization. Also quantizations of other
    numbers, and pools of integers, that only groups read.
    """
    single = [node for op in ON_INTEGERS for node in graph.by_operator.get(op, ())]
    if not has_groups(graph) and not single:
        return []
    groups = [frozenset([node]) for node in single]
    for core in graph.ordered():
        if core.operator not in MADE and is_core(core) and grade(core, _AS_IT_IS) == INTEGERS:
            read = [v.producer for v in core.inputs if v is not None]
            before = [node for node in read if node is not None]
            groups.append(frozenset([*before, core, *way_to_quantizer(core, _AS_IT_IS)]))
    inside = set[Node]().union(*groups)
    return [frozenset([*group, *_makers_for(group, inside)]) for group in groups]


def _makers_for(group: Iterable[Node], inside: Set[Node]) -> Iterator[Node]:
    """Quantizations, and operators on integers, that make what a group reads, and that only groups
    read.
    """
    readers = DEQUANTIZE | ON_INTEGERS
    for made in (node.inputs[0] for node in group if node.operator in readers):
        while made is not None and made.producer is not None:
            maker = made.producer
            is_for_groups = not made.is_output and all(user in inside for user in made.outputs)
            if maker in inside or not is_for_groups:
                break
            if maker.operator in QUANTIZE:
                yield maker
                break
            if maker.domain != "" or maker.op not in _OF_INTEGERS:
                break
            yield maker
            made = maker.inputs[0]


def has_groups(graph: Graph) -> bool:
    """Whether a graph dequantizes anything."""
    return any(graph.by_operator.get(operator) for operator in DEQUANTIZE)


def _affected_cores(nodes: Iterable[Node], shared: Iterable[Node]) -> dict[Node, None]:
    """The cores whose groups may change with these nodes: the nodes themselves and those before or
    after them.
    """
    cores = dict.fromkeys(node for node in (*nodes, *shared) if is_core(node))
    for node in nodes:
        if node.operator in QUANTIZE or (node.domain == "" and node.op in _UP_TO_QUANTIZER):
            cores.update(dict.fromkeys(_cores_upstream(node)))
        if node.operator in DEQUANTIZE or (node.domain == "" and node.op in PASSED):
            cores.update(dict.fromkeys(_cores_downstream(node)))
    return cores


def _cores_upstream(node: Node) -> Iterator[Node]:
    """The cores before a node with only moves, activations and a bias between."""
    reached = [node]
    for _ in range(FAR):
        makers = dict.fromkeys(v.producer for n in reached for v in n.inputs if v is not None)
        reached = []
        for maker in filter(None, makers):
            if is_core(maker):
                yield maker
            if maker.domain == "" and maker.op in _UP_TO_QUANTIZER:
                reached.append(maker)


def _cores_downstream(node: Node) -> Iterator[Node]:
    """The cores after a node with only moves between."""
    reached = [node]
    for _ in range(FAR):
        users = dict.fromkeys(
            u for n in reached for v in n.outputs if v is not None for u in v.outputs
        )
        yield from filter(is_core, users)
        reached = [user for user in users if user.domain == "" and user.op in PASSED]
