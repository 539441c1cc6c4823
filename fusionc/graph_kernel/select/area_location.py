"""Turn a region (operators of a cluster that become one kernel) into an area (the part of the graph
that the kernel computes), and find the operators of the model that the area replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.select.area_values import embedded
from fusionc.graph_kernel.select.cluster_model import is_seen_outside
from fusionc.graph_kernel.select.make_area import area_of
from fusionc.graph_kernel.select.split.regions import Region
from fusionc.model.graph import Edge, Node


@dataclass(frozen=True)
class AreaLocation:
    """An area and its place in the model."""

    area: Area
    nodes: tuple[Node, ...]  # operators of the model that the area replaces
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]


def located(
    region: Region, originals: Mapping[str, Edge], cluster: Iterable[Node]
) -> AreaLocation | None:
    """The area of a region in the model that its cluster comes from. `None` if it cannot be cut out
    of the model.

    `region` belongs to a copy of the cluster, which may have been expanded and simplified.
    `originals` maps names in this copy to values of the model; `cluster` contains the cluster's
    operators in the model. A region cannot be cut out if it contains only a part of an expanded
    operator, or if a simplification has mixed its operators with those of other regions.
    """
    nodes = sorted(region.nodes, key=lambda node: node.position)
    inputs, outputs = ends_of(nodes)
    if any(v.name not in originals for v in (*inputs, *outputs)):
        return None
    model_inputs = tuple(originals[v.name] for v in inputs)
    model_outputs = tuple(originals[v.name] for v in outputs)
    replaced = _nodes_between(set(model_inputs), model_outputs, set(cluster))
    area = None if replaced is None else area_of(nodes, inputs, outputs)
    if area is None or replaced is None:
        return None
    return AreaLocation(area, replaced, model_inputs, model_outputs)


def ends_of(nodes: Sequence[Node]) -> tuple[list[Edge], list[Edge]]:
    """The values that operators read from outside, and the results that are needed outside.
    Constants that become part of a kernel do not count as read.
    """
    inside = set(nodes)
    read = [v for node in nodes for v in node.inputs if v is not None and v.producer not in inside]
    inputs = [v for v in dict.fromkeys(read) if embedded(v) is None]
    return inputs, [v for v in _results(nodes) if is_seen_outside(v, inside)]


def _results(nodes: Iterable[Node]) -> list[Edge]:
    return [v for node in nodes for v in node.outputs if v is not None]


def _nodes_between(
    inputs: set[Edge], outputs: Sequence[Edge], cluster: set[Node]
) -> tuple[Node, ...] | None:
    """The operators of the cluster between inputs and outputs. `None` if other operators need one
    of their results that is not among `outputs`, or if they compute one of `inputs`.
    """
    nodes: set[Node] = set()
    stack = [value.producer for value in outputs]
    while stack:
        node = stack.pop()
        if node is None or node not in cluster or node in nodes:
            continue
        nodes.add(node)
        stack.extend(v.producer for v in node.inputs if v is not None and v not in inputs)
    results = set(_results(nodes))
    if not results.isdisjoint(inputs):
        return None
    if any(is_seen_outside(value, nodes) for value in results.difference(outputs)):
        return None
    return tuple(sorted(nodes, key=lambda node: node.position))
