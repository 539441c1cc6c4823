"""The changes of nodes between two models: replaced, removed, added or changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal

from fusionc.diff.pairs import Digests, Pairs, attributes_of, pair_nodes
from fusionc.diff.ports import body_changes, is_other, port_changes
from fusionc.model.disjoint_sets import DisjointSets
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.operators import short_name
from fusionc.protos.node_origin import Origin, origin_of
from fusionc.report.model_nodes import nodes_of_graphs

Kind = Literal["replaced", "removed", "added", "changed"]


@dataclass(frozen=True)
class NodeName:
    """A node in a report."""

    name: str  # for a node without a name, the operator and the first output
    operator: str  # with its domain


@dataclass(frozen=True)
class Change:
    """Nodes of the first model, and the corresponding nodes of the second model."""

    kind: Kind
    before: tuple[NodeName, ...]
    after: tuple[NodeName, ...]
    passes: tuple[str, ...] = ()  # the passes that made the new nodes, from the nodes' metadata
    details: tuple[str, ...] = ()  # the differences of a node that both models have


@dataclass(frozen=True)
class NodeChanges:
    """All changes, in the order of the first model."""

    changes: list[Change]
    kept: dict[str, int]  # nodes that both models have, counted by the way they were paired
    # a sentence for each model output, and each function input or output, that differs
    ports: tuple[str, ...]


def node_changes(before: Model, after: Model, digests: Digests) -> NodeChanges:
    """Compare the nodes of two models, including subgraphs and functions."""
    old = list(nodes_of_graphs(before))
    new = list(nodes_of_graphs(after))
    groups = _made_by_passes(old, new)
    grouped = set(chain.from_iterable(chain(group.before, group.after) for group in groups))
    free_old = [node for node in old if node not in grouped]
    free_new = [node for node in new if node not in grouped]
    pairs = pair_nodes((before, after), free_old, free_new, digests)
    unpaired_old = [node for node in free_old if node not in pairs.after]
    unpaired_new = [node for node in free_new if node not in pairs.before]
    groups += _regions(unpaired_old, unpaired_new, pairs)
    groups = _merge_removed(groups)
    groups += _changed(pairs, digests)
    _sort(groups, old, new)
    ports = tuple(port_changes((before, after), pairs, digests))
    return NodeChanges([group.as_change() for group in groups], dict(pairs.how), ports)


def _sort(groups: list[_Group], old: Sequence[Node], new: Sequence[Node]) -> None:
    """Sort the groups, and the nodes in each group, in the order of the first model. Added nodes
    come first.
    """
    place = {node: float(at) for at, node in enumerate(old)}
    place |= {node: at / len(new) for at, node in enumerate(new)}
    for group in groups:
        group.before.sort(key=place.__getitem__)
        group.after.sort(key=place.__getitem__)
    groups.sort(key=lambda group: place[(group.before or group.after)[0]])


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


def _made_by_passes(old: Sequence[Node], new: Sequence[Node]) -> list[_Group]:
    """Groups of nodes that passes replaced, with their replacements in the second model. The
    metadata of a new node names the nodes that it replaces. A node with the same metadata in both
    models is unchanged.
    """
    sources = _sources(old, new)
    sets = DisjointSets[Node]()
    for node, originals in sources.items():
        sets.join(node, *originals)
    joined = dict.fromkeys([*chain.from_iterable(sources.values()), *sources])
    return [_group_of(nodes, sources.keys()) for nodes in sets.sets(joined)]


def _sources(old: Sequence[Node], new: Sequence[Node]) -> dict[Node, list[Node]]:
    """The nodes of the second model that a pass made, each with its sources in the first model."""
    known = {(node.label(), node.op, origin_of(node.proto)) for node in old}
    by_name: dict[str, list[Node]] = {}
    for node in old:
        own = origin_of(node.proto) or Origin((), (node.label(),))
        for name in own.sources:
            by_name.setdefault(name, []).append(node)
    sources: dict[Node, list[Node]] = {}
    for node in new:
        origin = origin_of(node.proto)
        if origin is not None and (node.label(), node.op, origin) not in known:
            names = (by_name.get(name, ()) for name in origin.sources)
            sources[node] = list(dict.fromkeys(chain.from_iterable(names)))
    return {node: originals for node, originals in sources.items() if originals}


def _group_of(nodes: Sequence[Node], new_nodes: Set[Node]) -> _Group:
    """A group of nodes, with the passes that made its new nodes."""
    after = [node for node in nodes if node in new_nodes]
    before = [node for node in nodes if node not in new_nodes]
    known = set(_passes_of(before))
    passes = (name for name in _passes_of(after) if name not in known)
    return _Group(before, after, tuple(dict.fromkeys(passes)))


def _passes_of(nodes: Iterable[Node]) -> Iterator[str]:
    """The passes that made these nodes."""
    for origin in filter(None, (origin_of(node.proto) for node in nodes)):
        yield from origin.passes


def _regions(old: Sequence[Node], new: Sequence[Node], pairs: Pairs) -> list[_Group]:
    """Groups of nodes without a partner. Adjacent nodes are in one group, unless the value between
    them exists in both models or is a constant.
    """
    sets = DisjointSets[Node]()
    _join_neighbours(sets, set(old), pairs.values)
    _join_neighbours(sets, set(new), pairs.values_back)
    before = set(old)
    for node in new:
        for value in node.outputs:
            partner = None if value is None else pairs.values_back.get(value)
            if partner is not None and partner.producer in before:
                sets.join(node, partner.producer)
    return [
        _Group([n for n in nodes if n in before], [n for n in nodes if n not in before])
        for nodes in sets.sets([*old, *new])
    ]


def _join_neighbours(
    sets: DisjointSets[Node], nodes: set[Node], partners: dict[Edge, Edge]
) -> None:
    """Join each of these nodes with those that produce its inputs, unless `_is_cut` separates
    them.
    """
    for node in nodes:
        for value in filter(None, node.inputs):
            if value.producer in nodes and not _is_cut(value, partners):
                sets.join(node, value.producer)


def _merge_removed(groups: Sequence[_Group]) -> list[_Group]:
    """Merge nodes that were removed without replacement into the group that reads their results, if
    exactly one group reads all of these and that group has new nodes.
    """
    group_of = {node: group for group in groups for node in group.before}
    kept = []
    for group in groups:
        reader = None if group.after else _only_reader(group, group_of)
        if reader is None or not reader.after:
            kept.append(group)
            continue
        reader.before += group.before
        group_of.update(dict.fromkeys(group.before, reader))
    return kept


def _only_reader(group: _Group, group_of: dict[Node, _Group]) -> _Group | None:
    """The only group that reads the results of `group`. None if there are several, or if a result
    is a graph output.
    """
    outputs = chain.from_iterable(node.outputs for node in group.before)
    values = [value for value in outputs if value is not None]
    if any(value.is_output for value in values):
        return None
    users = dict.fromkeys(chain.from_iterable(value.outputs for value in values))
    readers = {group_of.get(user) for user in users if user not in group.before}
    return readers.pop() if len(readers) == 1 else None


def _is_cut(value: Edge, partners: dict[Edge, Edge]) -> bool:
    """Whether a value separates its producer from its consumers, because the value is a constant or
    is also in the other model.
    """
    return value in partners or value.is_constant


def _changed(pairs: Pairs, digests: Digests) -> Iterator[_Group]:
    for one, other in pairs.after.items():
        details = tuple(_details(one, other, pairs, digests))
        if details:
            yield _Group([one], [other], details=details)


def _details(one: Node, other: Node, pairs: Pairs, digests: Digests) -> Iterator[str]:
    """The differences between a node and its partner."""
    if pairs.graphs.get(one.graph, other.graph) is not other.graph:
        yield "is in another graph"
    before = attributes_of(one)
    after = attributes_of(other)
    every = sorted(before.keys() | after.keys())
    if names := ", ".join(name for name in every if before.get(name) != after.get(name)):
        yield f"attributes {names}"
    if len(one.outputs) != len(other.outputs):
        yield f"{len(one.outputs)} outputs before, {len(other.outputs)} after"
    yield from body_changes(one, other, pairs, digests)
    for at, (old, new) in enumerate(zip_longest(one.inputs, other.inputs)):
        if detail := _input_detail(old, new, pairs, digests):
            yield detail.format(f"input {at}")


def _input_detail(old: Edge | None, new: Edge | None, pairs: Pairs, digests: Digests) -> str:
    """How an input of a node differs from that of its partner: a sentence with {} in place of the
    name of the input. Empty if the inputs are the same.
    """
    if old is None or new is None:
        return "" if old is new else f"{{}} was {'added' if old is None else 'removed'}"
    if old.is_constant != new.is_constant:
        return f"{{}} is now {'computed' if old.is_constant else 'a constant'}"
    if not is_other(old, new, pairs, digests):
        return ""
    return "{} is another constant" if old.is_constant else "{} is another value"
