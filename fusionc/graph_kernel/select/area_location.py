"""From a region of a cluster to an area, and to the operators of the model that it stands for."""

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
    """An area, and where it is in the model: the operators that it replaces, what it reads and what
    it provides.
    """

    area: Area
    nodes: tuple[Node, ...]
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]


def located(
    region: Region, originals: Mapping[str, Edge], cluster: Iterable[Node]
) -> AreaLocation | None:
    """The area of a region in the model of a cluster; None where it cannot be cut out of the model
    itself.

    `originals` are the values of the cluster in the model, by name, `cluster` is its operators
    there. An expanded operator of which a part is elsewhere cannot be cut, nor can what
    simplification has entangled with its neighbours.
    """
    nodes = sorted(region.nodes, key=lambda node: node.position)
    inputs, outputs = ends_of(nodes)
    if any(v.name not in originals for v in (*inputs, *outputs)):
        return None
    read_there, made_there = (
        tuple(originals[v.name] for v in values) for values in (inputs, outputs)
    )
    replaced = _between(set(read_there), made_there, set(cluster))
    area = None if replaced is None else area_of(nodes, inputs, outputs)
    return (
        None
        if area is None or replaced is None
        else AreaLocation(area, replaced, read_there, made_there)
    )


def ends_of(nodes: Sequence[Node]) -> tuple[list[Edge], list[Edge]]:
    """What operators read from outside, but for constants that become part of a kernel, and what is
    needed outside.
    """
    inside = set(nodes)
    read = [v for node in nodes for v in node.inputs if v is not None and v.producer not in inside]
    made = [v for node in nodes for v in node.outputs if v is not None]
    inputs = [v for v in dict.fromkeys(read) if embedded(v) is None]
    return inputs, [v for v in made if is_seen_outside(v, inside)]


def _between(
    inputs: set[Edge], outputs: Sequence[Edge], cluster: set[Node]
) -> tuple[Node, ...] | None:
    """The operators of the cluster that lead from `inputs` to `outputs`; None where others need
    their results.
    """
    found: set[Node] = set()
    stack = [value.producer for value in outputs]
    while stack:
        node = stack.pop()
        if node is None or node not in cluster or node in found:
            continue
        found.add(node)
        stack.extend(v.producer for v in node.inputs if v is not None and v not in inputs)
    made = {value for node in found for value in node.outputs if value is not None}
    if any(
        is_seen_outside(value, found) for value in made.difference(outputs)
    ) or made.intersection(inputs):
        return None
    return tuple(sorted(found, key=lambda node: node.position))
