"""The nodes of a model as reports count them."""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS


def nodes_of_graphs(model: Model) -> Iterator[Node]:
    """All nodes in topological order, including nodes in subgraphs and functions. An area (a group
    of operators with one generated kernel) counts as one node.
    """
    for graph in model.graphs:
        if not _is_of_area(graph):
            yield from graph.ordered()


def _is_of_area(graph: Graph) -> bool:
    outermost = graph
    while outermost.parent is not None:
        outermost = outermost.parent
    return outermost.is_function and outermost.proto.domain == KERNELS
