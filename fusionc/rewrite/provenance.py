"""A node that a pass has made says so, and which nodes it stands for; what these had to say is
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusionc.model.graph import Node
from fusionc.protos.node_origin import (
    FROM_KEY,
    PASS_KEY,
    Origin,
    doc_line,
    doc_of,
    newest_lines,
    origin_of,
)

_MOST_SOURCES = 64  # names of nodes that a node is said to come from
_MOST_LINES = 64  # that a doc_string has on this
_METADATA_IR = 10  # the IR version since which nodes have metadata_props


def stamp(
    new_nodes: Iterable[Node], old_nodes: Sequence[Node], pass_name: str, ir_version: int
) -> None:
    """Write provenance, and keep the metadata of what was replaced: for each key, the first node's
    that has it.
    """
    has_metadata = ir_version >= _METADATA_IR
    known = [origin_of(node.proto) if has_metadata else None for node in old_nodes]
    origins = [
        origin or Origin((), (node.label(),)) for origin, node in zip(known, old_nodes, strict=True)
    ]
    passes = dict.fromkeys([*(name for origin in origins for name in origin.passes), pass_name])
    sources = list(dict.fromkeys(name for origin in origins for name in origin.sources))
    if len(sources) > _MOST_SOURCES:
        sources = [*sources[:_MOST_SOURCES], "…"]
    docs = dict.fromkeys(doc_of(old.proto) for old in old_nodes if old.proto.doc_string)
    merged = dict[str, str]()
    if has_metadata:
        merged = {PASS_KEY: ",".join(passes), FROM_KEY: ",".join(sources)}
        for prop in (prop for old in old_nodes for prop in old.proto.metadata_props):
            merged.setdefault(prop.key, prop.value)
    else:  # what the nodes before had to say is there, a line for each rewrite
        docs[doc_line(Origin(tuple(passes), tuple(sources)))] = None
    doc_string = newest_lines("\n".join(docs), _MOST_LINES)
    for node in new_nodes:
        node.proto.doc_string = doc_string
        for key, value in merged.items():
            node.proto.metadata_props.add(key=key, value=value)
