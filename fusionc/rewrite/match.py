"""A match: what a pattern found in one place of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusionc.model.graph import Constant, Edge, Graph, Node
from fusionc.model.questions import Refused, refuse

Find = Callable[[Graph], Iterable["Match | Miss"]]


class Match:
    """The captures of a pattern as attributes (`m.x`, `m.conv`), and what the rewrite replaces.

    The capture of an optional input that is left out is None. A name that only other patterns of
    the pass capture is None, too. If a pattern has a `find`, that function creates the matches.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node] = (),
        outputs: Iterable[Edge | None] = (),
        captures: Mapping[str, Any] | None = None,
        *,
        literal_rank: int = 0,
        drops: Sequence[Constant | Graph] = (),
    ) -> None:
        self.graph = graph
        self.nodes = tuple(nodes)  # the rewrite takes these out of the graph
        # the rewrite must provide these anew, in the order of the pattern's outputs
        self.outputs = tuple(value for value in outputs if value is not None)
        self.captures = dict(captures or {})
        # the highest rank of a constant that was matched by its value alone
        self.literal_rank = literal_rank
        self.drops = tuple(drops)  # constants and functions that go without a replacement

    @property
    def labels(self) -> tuple[str, ...]:
        """What distinguishes it from other matches of its pattern: its nodes, or else what it
        replaces.
        """
        replaced = (
            item.name if isinstance(item, Edge) else item.proto.name
            for item in (*self.outputs, *self.drops)
        )
        return tuple(node.label() for node in self.nodes) or tuple(replaced)

    @property
    def is_stale(self) -> bool:
        """Whether a node or value of the match has left the graph since it was found."""
        return not all(map(_is_there, (self.nodes, self.outputs, self.drops, self.captures)))

    @property
    def opset(self) -> int:
        """The version of the standard operator set that the graph imports."""
        return self.graph.opset

    def require_opset(self, version: int, before: str) -> None:
        """Refuse an older opset; `before` says what it lacks ("Gemm does not broadcast")."""
        if self.opset < version:
            refuse(f"before opset {version} {before}", opset=version)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["captures"][name]
        except KeyError:
            raise AttributeError(f"the pattern captures no {name!r}") from None


def _is_there(item: object) -> bool:
    if isinstance(item, Node):
        return item.is_in_graph
    if isinstance(item, Edge):
        return item.graph.values.get(item.name) is item
    if isinstance(item, Mapping):
        return all(map(_is_there, item.values()))
    return not isinstance(item, tuple | list | set) or all(map(_is_there, item))


@dataclass(frozen=True)
class Miss:
    """A node that `find` rejected. `reason` is the first condition that does not hold there."""

    node: Node
    reason: str


def find_each(find_at: Callable[[Node], Match], *operators: str) -> Find:
    """A `find` that calls a function at every node of some operators, in the order of the model.
    The function returns a match. If it refuses, the node is a miss.
    """

    def find(graph: Graph) -> Iterator[Match | Miss]:
        for node in [node for name in operators for node in graph.of_operator(name)]:
            if node.is_in_graph and not node.has_references:
                try:
                    found: Match | Miss = find_at(node)
                except Refused as refusal:
                    found = Miss(node, refusal.reason)
                yield found

    return find
