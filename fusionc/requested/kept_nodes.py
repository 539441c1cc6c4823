"""--keep_nodes: nodes that no pass changes, and that no generated kernel computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from onnx import ModelProto, NodeProto

from fusionc.errors import UsageError, advice
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.questions import refuse
from fusionc.protos import graphs_in
from fusionc.requested.option_file import option_text
from fusionc.rewrite.match import Match
from fusionc.rewrite.soundness import Replacement, node_in

KEPT = "--keep_nodes keeps one of its nodes as it is"
_OPTION = "--keep_nodes"
_HINT = "give names of nodes, or a text file with a name in each line"


@dataclass(frozen=True)
class KeptNodes:
    """Nodes of the main graph and its subgraphs: by name, by a pattern with `*`, or all nodes of a
    scope (`encoder/`). A node without a name has the name Operator:output.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: Path | str | Sequence[str] | None) -> KeptNodes:
        """The nodes with these names: a list, a text with semicolons, or a file with a name in each
        line. Raises UsageError if none is given, and FusioncError if the file cannot be read.
        """
        if given is None:
            return cls()
        parts: Iterable[str] = given if not isinstance(given, Path | str) else ()
        if isinstance(given, Path):
            parts = option_text(given, _OPTION, _HINT).splitlines()
        if isinstance(given, str):
            parts = given.split(";")
        names = tuple(filter(None, map(str.strip, parts)))
        if not names:
            raise UsageError("no node is named", where=_OPTION, hint=_HINT, code="E10001")
        return cls(names)

    def require_known(self, model: ModelProto) -> None:
        """Raise UsageError if one of the names fits no node."""
        labels = [*map(_label, _nodes_in(model))] if self.names else []
        for name in self.names:
            if not any(map(_pattern(name).fullmatch, labels)):
                what = f"no node of the model has the name {name}"
                hint = advice(
                    name, labels, "give the name of a node, or the path of a file with such names"
                )
                raise UsageError(what, where=_OPTION, hint=hint, code="E10016")

    def nodes_in(self, model: Model) -> frozenset[Node]:
        """The nodes that the names fit. No pass may have changed the model yet."""
        graphs = (graph for graph in model.graphs if self.names)
        return frozenset(node for graph in graphs for node in graph.nodes if self.has(node))

    def has(self, node: Node) -> bool:
        """Whether the names fit a node."""
        label = node.label() if self.names and not node.graph.is_function else ""
        return any(_pattern(name).fullmatch(label) for name in self.names)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """The names of nodes that a name of the option fits. Names of nodes may begin with a slash, as
    torch writes them.
    """
    text = re.escape(name).replace(r"\*", ".*")
    return re.compile(f"/?{text}.*" if name.endswith("/") else text, re.DOTALL)


def _nodes_in(model: ModelProto) -> Iterator[NodeProto]:
    for graph in graphs_in(model.graph):
        yield from graph.node


def _label(node: NodeProto) -> str:
    first = next(filter(None, node.output), "")
    return node.name or f"{node.op_type}:{first}"


def refuse_for(is_kept: Callable[[Node], bool]) -> Callable[..., None]:
    """A function for `RewriteLog.examine`. It refuses rewrites that would remove a kept node, or a
    node whose subgraph contains a kept node.
    """

    def examine(_commit: object, _pass: object, match: Match, new: Replacement, _: object) -> None:
        inner = (
            node for outer in match.nodes for body in outer.subgraphs(True) for node in body.nodes
        )
        removed = chain(match.nodes, inner, _unneeded(match, new))
        if any(map(is_kept, removed)):
            refuse(KEPT)

    return examine


def _unneeded(match: Match, new: Replacement) -> Iterator[Node]:
    """The nodes that will be removed, too, because only the matched nodes need them."""
    read = {value for node in new.nodes for value in new.tape.reads(node)}
    read.update(value for _, value in new.pairs)
    removed = set(match.nodes)
    waiting = [*match.nodes]
    while waiting:
        node = waiting.pop()
        for value in filter(None, (*node.inputs, *node.captures())):
            maker = value.producer
            if maker is not None and maker not in removed and _is_unneeded(maker, removed, read):
                removed.add(maker)
                waiting.append(maker)
                yield maker


def _is_unneeded(node: Node, removed: Collection[Node], read: Collection[Edge | None]) -> bool:
    return all(
        value not in read
        and not value.is_output
        and all(node_in(node.graph, user) in removed for user in value.outputs)
        for value in node.outputs
        if value is not None
    )
