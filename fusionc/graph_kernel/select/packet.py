"""Kernel packets: what is computed from sizes alone, for whatever operator uses it, becomes one
kernel.

In a model of dynamic sizes that is a Shape and the small operators behind it. Each of them takes
longer to be called than to compute. MindSpore's packet has the operator inside that uses the
result; here that one stays as it is.
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

_MOST_ELEMENTS = 16  # of a value; each is a loop nest of the kernel


def packets_of(
    graph: Graph, taken: Collection[Node], supported: SupportedOperators, flags: Flags
) -> list[AreaLocation]:
    """The packets of a graph without operators that are `taken`, by areas."""
    members: set[Node] = set()
    for node in graph.ordered():
        makers = [v.producer for v in node.inputs if v is not None and not v.is_constant]
        is_computed = bool(makers) and all(maker in members for maker in makers)
        is_candidate = node not in taken and (node.is_op(SOURCE_OF_SIZES) or is_computed)
        if (
            is_candidate
            and all(_is_small(v) for v in node.outputs)
            and supported.of_node(node) is None
        ):
            members.add(node)
    groups = clusters_of(graph, members.__contains__)
    locations = [_packet(nodes) for nodes in groups if len(nodes) > 1]
    return [
        location
        for location in locations
        if location is not None
        and _is_wanted(location, flags)
        and supported.of_area(location.area) is None
    ]


def _packet(nodes: list[Node]) -> AreaLocation | None:
    inputs, outputs = ends_of(nodes)
    area = area_of(nodes, inputs, outputs, "packet")
    return (
        None
        if area is None
        else AreaLocation(_of_any_sizes(area), tuple(nodes), tuple(inputs), tuple(outputs))
    )


def _of_any_sizes(area: Area) -> Area:
    """The area without equal symbols: no operator in it needs equal sizes, and onnxruntime asks for
    none.
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
    """Whether the flags allow a packet for every operator that uses it."""
    users = {user for value in location.outputs for user in value.outputs}.difference(
        location.nodes
    )
    return flags.has_packet({qualified(user.op, user.domain) for user in users})
