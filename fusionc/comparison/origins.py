"""Where the nodes of a model say that they come from: the passes that made them, and the nodes they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS
from fusionc.rewrite.provenance import FROM_KEY, PASS_KEY

_IN_DOC_STRING = re.compile(rf"^{re.escape(PASS_KEY)}=(.*?); {re.escape(FROM_KEY)}=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Origin:
    """`passes` made the node of those that are called `sources`."""

    passes: tuple[str, ...]
    sources: tuple[str, ...]


def origin_of(node: Node) -> Origin | None:
    """What a node says of itself; None where no pass has made it."""
    said = {prop.key: prop.value for prop in node.proto.metadata_props}
    written = _IN_DOC_STRING.findall(node.proto.doc_string)  # one line for each pass
    if PASS_KEY in said:
        written.append((said[PASS_KEY], said.get(FROM_KEY, "")))
    passes, sources = (dict.fromkeys(name for line in written for name in line[at].split(",")) for at in (0, 1))
    return Origin(tuple(passes), tuple(sources)) if written else None


def nodes_of_graphs(model: Model) -> Iterator[Node]:
    """All nodes in topological order, those of subgraphs and functions too; an area is one node."""
    for graph in model.graphs:
        if not _is_of_area(graph):
            yield from graph.ordered()


def _is_of_area(graph: Graph) -> bool:
    outermost = graph
    while outermost.parent is not None:
        outermost = outermost.parent
    return outermost.is_function and outermost.proto.domain == KERNELS
