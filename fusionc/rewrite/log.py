"""What was done: a record of each rewrite, and of each pattern and graph how often it matched and took effect.

And what a node says of where it comes from: the passes that made it, and the nodes that it stands for. It stands in its
metadata_props, in models of older IR versions in its doc_string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fusionc.model.graph import Node

PASS_KEY, FROM_KEY = "fusionc.pass", "fusionc.from"
_MOST_SOURCES = 64  # names of nodes that a node is said to come from
_METADATA_IR = 10  # the IR version since which nodes have metadata_props


@dataclass
class PatternCount:
    """How often one pattern matched, took effect and was refused in one graph (0 is the main graph).

    Always matched == effected + sum(refused).
    `waiting` are those of the refused for which the opset of the model is the reason, by the one that would do.
    """

    graph_id: int
    kind: str
    pass_name: str
    pattern: str
    effected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def matched(self) -> int:
        """How often the pattern was found, refused or not."""
        return self.effected + sum(self.refused.values())


@dataclass(frozen=True)
class Commit:
    """One rewrite that took effect, as the log tells it and as bisection names it."""

    number: int = field(compare=False)
    graph_id: int
    pass_name: str
    pattern: str
    nodes: tuple[str, ...]


class RewriteLog:
    """Numbers the rewrites of a run, stops them after `limit`, and keeps away those that are `left_out`."""

    def __init__(self, limit: int | None = None, left_out: Sequence[Commit] = ()) -> None:
        self.limit = limit
        self.left_out = left_out
        self.last: Commit | None = None

    @property
    def count(self) -> int:
        """How many rewrites took effect."""
        return 0 if self.last is None else self.last.number

    @property
    def is_closed(self) -> bool:
        """Whether no more may take effect."""
        return self.limit is not None and self.count >= self.limit


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
    for node in new_nodes:
        docs = dict.fromkeys(old.proto.doc_string for old in old_nodes if old.proto.doc_string)
        if ir_version < _METADATA_IR:
            docs[f"{PASS_KEY}={','.join(passes)}; {FROM_KEY}={','.join(sources)}"] = None
        else:
            merged = {PASS_KEY: ",".join(passes), FROM_KEY: ",".join(sources)}
            for old in old_nodes:
                for prop in old.proto.metadata_props:
                    merged.setdefault(prop.key, prop.value)
            for key, value in merged.items():
                node.proto.metadata_props.add(key=key, value=value)
        node.proto.doc_string = "\n".join(docs)
