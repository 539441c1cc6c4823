"""The provenance of new nodes: each records its passes and source nodes, and keeps the metadata and
doc strings of the source nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

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

_MAX_SOURCES = 64  # names of source nodes in one record
_MAX_LINES = 64  # provenance lines in one doc_string
_METADATA_IR = 10  # the first IR version in which nodes have metadata_props


def stamp(
    new_nodes: Iterable[Node], old_nodes: Sequence[Node], pass_name: str, ir_version: int
) -> None:
    """Write provenance into the new nodes, and copy the metadata and doc strings of the old nodes.
    If several old nodes have the same metadata key, the first value is kept.
    """
    has_metadata = ir_version >= _METADATA_IR
    docs = dict.fromkeys(doc_of(old.proto) for old in old_nodes if old.proto.doc_string)
    origin = _joined_origin(old_nodes, pass_name, has_metadata)
    merged = dict[str, str]()
    if has_metadata:
        merged = {PASS_KEY: ",".join(origin.passes), FROM_KEY: ",".join(origin.sources)}
        for prop in chain.from_iterable(old.proto.metadata_props for old in old_nodes):
            merged.setdefault(prop.key, prop.value)
    else:  # a doc string has a line for each rewrite, including older rewrites
        docs[doc_line(origin)] = None
    doc_string = newest_lines("\n".join(docs), _MAX_LINES)
    for node in new_nodes:
        node.proto.doc_string = doc_string
        for key, value in merged.items():
            node.proto.metadata_props.add(key=key, value=value)


def _joined_origin(nodes: Sequence[Node], pass_name: str, has_metadata: bool) -> Origin:
    """The origin of a node that a pass makes from these nodes."""
    passes = dict[str, None]()
    sources = dict[str, None]()
    for node in nodes:
        known = origin_of(node.proto) if has_metadata else None
        origin = known or Origin((), (node.label(),))
        passes.update(dict.fromkeys(origin.passes))
        sources.update(dict.fromkeys(origin.sources))
    more = ("…",) if len(sources) > _MAX_SOURCES else ()
    passes.setdefault(pass_name)
    return Origin(tuple(passes), (*list(sources)[:_MAX_SOURCES], *more))
