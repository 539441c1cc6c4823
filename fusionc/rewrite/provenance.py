"""What a node says of where it comes from: the passes that made it, and the nodes that it stands for.

It stands in its metadata_props, in models of older IR versions in its doc_string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusionc.model.graph import Node

PASS_KEY, FROM_KEY = "fusionc.pass", "fusionc.from"
_MOST_SOURCES = 64  # names of nodes that a node is said to come from
_METADATA_IR = 10  # the IR version since which nodes have metadata_props


def _origin_of(node: Node) -> tuple[list[str], list[str]]:
    """The passes that made a node and the nodes of the original model that it stands for."""
    props = {p.key: p.value for p in node.proto.metadata_props}
    if PASS_KEY in props:
        return props[PASS_KEY].split(","), props.get(FROM_KEY, "").split(",")
    return [], [node.label()]


def stamp(new_nodes: Iterable[Node], old_nodes: Sequence[Node], pass_name: str, ir_version: int) -> None:
    """Write provenance, and keep the metadata of what was replaced: for each key, the first node's that has it."""
    origins = [_origin_of(node) for node in old_nodes]
    passes = dict.fromkeys(name for made_by, _ in origins for name in made_by)
    passes[pass_name] = None
    sources = list(dict.fromkeys(name for _, names in origins for name in names))
    if len(sources) > _MOST_SOURCES:
        sources = [*sources[:_MOST_SOURCES], "…"]
    merged = {PASS_KEY: ",".join(passes), FROM_KEY: ",".join(sources)}
    docs = dict.fromkeys(old.proto.doc_string for old in old_nodes if old.proto.doc_string)
    if ir_version < _METADATA_IR:
        docs["; ".join(f"{key}={value}" for key, value in merged.items())] = None
        merged.clear()
    else:
        for prop in (prop for old in old_nodes for prop in old.proto.metadata_props):
            merged.setdefault(prop.key, prop.value)
    for node in new_nodes:
        node.proto.doc_string = "\n".join(docs)
        for key, value in merged.items():
            node.proto.metadata_props.add(key=key, value=value)
