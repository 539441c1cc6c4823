"""What became of the nodes of a model in another one: made by a pass, replaced, removed, added, or
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fusionc.diff.model_nodes import nodes_of_graphs
from fusionc.diff.pairs import Digests, Pairs, attributes_of, pair_nodes
from fusionc.diff.ports import body_changes, is_other, port_changes
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.operators import short_name
from fusionc.protos.node_origin import Origin, origin_of

Kind = Literal["replaced", "removed", "added", "changed"]


@dataclass(frozen=True)
class NodeName:
    """A node as people call it: its name, or what it makes where it has none, and its operator with
    its domain.
    """

    name: str
    operator: str


@dataclass(frozen=True)
class Change:
    """These nodes of the first model are those of the second one.

    `passes` made them, where they say so. `details` are what differs in a node that both models
    have.
    """

    kind: Kind
    before: tuple[NodeName, ...]
    after: tuple[NodeName, ...]
    passes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeChanges:
    """What changed, in the order of the first model, and how many nodes both models have, by how
    that was found.

    `ports` has a sentence for each output of the models, and each port of their functions, that is
    another value.
    """

    changes: list[Change]
    kept: dict[str, int]
    ports: tuple[str, ...]


def node_changes(before: Model, after: Model, digests: Digests) -> NodeChanges:
    """Compare the nodes of two models, those of subgraphs and functions too."""
    old = list(nodes_of_graphs(before))
    new = list(nodes_of_graphs(after))
    groups = _made_by_passes(old, new)
    grouped = {node for group in groups for nodes in (group.before, group.after) for node in nodes}
    free = [[node for node in nodes if node not in grouped] for nodes in (old, new)]
    pairs = pair_nodes((before, after), free[0], free[1], digests)
    groups += _regions(
        [node for node in old if node not in grouped and node not in pairs.after],
        [node for node in new if node not in grouped and node not in pairs.before],
        pairs,
    )
    groups = _with_what_served_them(groups)
    groups += _changed(pairs, digests)
    place = {node: at for at, node in enumerate(old)} | {
        node: at / len(new) for at, node in enumerate(new)
    }
    for group in groups:
        group.before.sort(key=place.__getitem__)
        group.after.sort(key=place.__getitem__)
    groups.sort(key=lambda group: place[(group.before or group.after)[0]])
    ports = tuple(port_changes((before, after), pairs, digests))
    return NodeChanges([group.as_change() for group in groups], dict(pairs.how), ports)


@dataclass(eq=False)
class _Group:
    before: list[Node]
    after: list[Node]
    passes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def as_change(self) -> Change:
        kind: Kind = (
            "replaced" if self.before and self.after else "removed" if self.before else "added"
        )
        kind = "changed" if self.details else kind
        return Change(kind, _names(self.before), _names(self.after), self.passes, self.details)


def _names(nodes: Iterable[Node]) -> tuple[NodeName, ...]:
    return tuple(NodeName(node.label(), short_name(node.op, node.domain)) for node in nodes)


class _Union:
    """Sets of nodes that grow together."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._parent = {node: node for node in nodes}

    def root(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = node = self._parent[self._parent[node]]
        return node

    def join(self, one: Node, other: Node) -> None:
        self._parent[self.root(other)] = self.root(one)

    def sets(self) -> Iterator[list[Node]]:
        found: dict[Node, list[Node]] = {}
        for node in self._parent:
            found.setdefault(self.root(node), []).append(node)
        yield from found.values()


def _made_by_passes(old: Sequence[Node], new: Sequence[Node]) -> list[_Group]:
    """What nodes say that passes have made them of; those that the first model has, too, are no
    change.
    """
    had = {(node.label(), node.op, origin_of(node.proto)) for node in old}
    by_source: dict[str, list[Node]] = {}
    for node in old:
        own = origin_of(node.proto) or Origin((), (node.label(),))
        for name in own.sources:
            by_source.setdefault(name, []).append(node)
    made: dict[Node, Origin] = {}
    sources: dict[Node, list[Node]] = {}
    for node in new:
        origin = origin_of(node.proto)
        if origin is not None and (node.label(), node.op, origin) not in had:
            found = [source for name in origin.sources for source in by_source.get(name, ())]
            if found:
                made[node] = origin
                sources[node] = list(dict.fromkeys(found))
    union = _Union([*(n for found in sources.values() for n in found), *made])
    for node, found in sources.items():
        for source in found:
            union.join(node, source)
    groups = []
    for nodes in union.sets():
        after = [node for node in nodes if node in made]
        before = [node for node in nodes if node not in made]
        known = {
            name for node in before for name in (origin_of(node.proto) or Origin((), ())).passes
        }
        passes = dict.fromkeys(
            name for node in after for name in made[node].passes if name not in known
        )
        groups.append(_Group(before, after, tuple(passes)))
    return groups


def _regions(old: Sequence[Node], new: Sequence[Node], pairs: Pairs) -> list[_Group]:
    """Nodes without a partner, those together that lie between values that both models have."""
    union = _Union([*old, *new])
    for nodes, partners in ((set(old), pairs.values), (set(new), pairs.values_back)):
        for node in nodes:
            for value in node.inputs:
                if value is not None and value.producer in nodes and not _is_cut(value, partners):
                    union.join(node, value.producer)
    left = set(old)
    for node in new:
        for value in node.outputs:
            partner = None if value is None else pairs.values_back.get(value)
            if partner is not None and partner.producer in left:
                union.join(node, partner.producer)
    return [
        _Group([n for n in nodes if n in left], [n for n in nodes if n not in left])
        for nodes in union.sets()
    ]


def _with_what_served_them(groups: Sequence[_Group]) -> list[_Group]:
    """Nodes that were removed with nothing in their place go with the one group that alone has read
    their results.
    """
    group_of = {node: group for group in groups for node in group.before}
    left = []
    for group in groups:
        values = [value for node in group.before for value in node.outputs if value is not None]
        readers = {
            group_of.get(reader)
            for value in values
            for reader in value.outputs
            if reader not in group.before
        }
        (reader,) = readers if len(readers) == 1 else (None,)
        is_for_one = (
            reader is not None
            and bool(reader.after)
            and not any(value.is_output for value in values)
        )
        if group.after or reader is None or not is_for_one:
            left.append(group)
            continue
        reader.before += group.before
        group_of.update(dict.fromkeys(group.before, reader))
    return left


def _is_cut(value: Edge, partners: dict[Edge, Edge]) -> bool:
    """Whether nodes on both sides of a value are apart: the other model has it, too, or it is a
    constant.
    """
    return value in partners or value.is_constant


def _changed(pairs: Pairs, digests: Digests) -> Iterator[_Group]:
    for one, other in pairs.after.items():
        details = tuple(_details(one, other, pairs, digests))
        if details:
            yield _Group([one], [other], details=details)


def _details(one: Node, other: Node, pairs: Pairs, digests: Digests) -> Iterator[str]:
    if pairs.graphs.get(one.graph, other.graph) is not other.graph:
        yield "is in another graph"
    ours = attributes_of(one)
    theirs = attributes_of(other)
    names = sorted(
        name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
    )
    if names:
        yield f"attributes {', '.join(names)}"
    if len(one.outputs) != len(other.outputs):
        yield f"{len(one.outputs)} outputs, {len(other.outputs)} after"
    yield from body_changes(one, other, pairs, digests)
    width = max(len(one.inputs), len(other.inputs))
    for at, (value, its) in enumerate(
        zip(*(_filled(n.inputs, width) for n in (one, other)), strict=True)
    ):
        if value is None or its is None:
            if value is not its:
                yield f"input {at} is {'there now' if value is None else 'gone'}"
        elif value.is_constant and its.is_constant:
            if is_other(value, its, pairs, digests):
                yield f"another constant as input {at}"
        elif value.is_constant or its.is_constant:
            yield f"input {at} {'is computed now' if value.is_constant else 'is a constant now'}"
        elif is_other(value, its, pairs, digests):
            yield f"reads another value as input {at}"


def _filled(values: Sequence[Edge | None], width: int) -> list[Edge | None]:
    return [*values, *[None] * (width - len(values))]
