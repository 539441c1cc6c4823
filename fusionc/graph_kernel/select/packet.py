"""Kernel packets: operators that only compute with sizes become one kernel.

In a model with dynamic sizes, a packet consists of a Shape and the small operators after it. The
call of such an operator takes longer than its computation. MindSpore's packet also contains the
operator that uses the computed sizes; the packets here do not.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.select.area_location import AreaLocation, ends_of
from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.graph_kernel.select.make_area import area_of
from fusionc.graph_kernel.select.operator_kinds import SOURCE_OF_SIZES
from fusionc.graph_kernel.select.supported_operators import SupportedOperators
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import qualified

_MOST_ELEMENTS = 16  # elements of a value in a packet; each becomes a loop nest of the kernel


def packets_of(
    graph: Graph, taken: Collection[Node], supported: SupportedOperators, flags: Flags
) -> list[AreaLocation]:
    """The packets of a graph. Operators in `taken` are in other areas already."""
    members: set[Node] = set()
    for node in graph.ordered():
        if node in taken or not _is_of_sizes(node, members):
            continue
        if all(_is_small(v) for v in node.outputs) and supported.of_node(node) is None:
            members.add(node)
    packets = []
    for nodes in clusters_of(graph, members.__contains__):
        packet = _packet(nodes) if len(nodes) > 1 else None
        if packet is None or not _is_wanted(packet, flags):
            continue
        if supported.of_area(packet.area) is None:
            packets.append(packet)
    return packets


def _is_of_sizes(node: Node, members: Collection[Node]) -> bool:
    """Whether a node is a Shape, or reads at least one result of `members` and otherwise only
    constants.
    """
    if node.is_op(SOURCE_OF_SIZES):
        return True
    producers = [v.producer for v in node.inputs if v is not None and not v.is_constant]
    return bool(producers) and all(producer in members for producer in producers)


def _packet(nodes: list[Node]) -> AreaLocation | None:
    inputs, outputs = ends_of(nodes)
    area = area_of(nodes, inputs, outputs, "packet")
    return (
        None
        if area is None
        else AreaLocation(_generalized(area), tuple(nodes), tuple(inputs), tuple(outputs))
    )


def _generalized(area: Area) -> Area:
    """The area, in which each unknown size has its own symbol, because the operators of a packet do
    not need equal sizes.
    """
    values = {
        name: replace(
            v,
            shape=tuple(
                d if isinstance(d, int) else f"{name}_{axis}" for axis, d in enumerate(v.shape)
            ),
        )
        for name, v in area.values.items()
    }
    return replace(area, values=values)


def _is_small(value: Edge | None) -> bool:
    if value is None or value.shape is None:
        return False
    sizes = [dim for dim in value.shape if isinstance(dim, int)]
    return len(sizes) == len(value.shape) and math.prod(sizes) <= _MOST_ELEMENTS


def _is_wanted(location: AreaLocation, flags: Flags) -> bool:
    """Whether the flags allow a packet for the operators that use its results."""
    users = {user for value in location.outputs for user in value.outputs}.difference(
        location.nodes
    )
    return flags.has_packet({qualified(user.op, user.domain) for user in users})
