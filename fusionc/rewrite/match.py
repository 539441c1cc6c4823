"""A match of a pattern at one place of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusionc.model.graph import Constant, Edge, Graph, Node
from fusionc.model.questions import Refused, refuse

Find = Callable[[Graph], Iterable["Match | Miss"]]


class Match:
    """The captures of a pattern as attributes (`m.x`, `m.conv`), and the nodes and outputs that the
    rewrite replaces.

    An optional input that is left out is captured as None. A name that only other patterns of the
    pass capture is also None. If a pattern has a `find`, that function creates the matches.
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
        self.nodes = tuple(nodes)  # the nodes that the rewrite removes
        # the values for which the rewrite must return replacements, in the pattern's order
        self.outputs = tuple(value for value in outputs if value is not None)
        self.captures = dict(captures or {})
        self.kwargs: Mapping[str, Any] = {}  # the arguments of register_replacement, by name
        # the highest rank of a constant that was matched only by its value
        self.literal_rank = literal_rank
        self.drops = tuple(drops)  # constants and functions that are removed without replacement

    @property
    def labels(self) -> tuple[str, ...]:
        """The names that identify the match among the matches of its pattern: the names of its
        nodes, or, if it has no nodes, the names of the replaced values and dropped items.
        """
        items: Iterable[Node | Edge | Graph] = self.nodes or (*self.outputs, *self.drops)
        return tuple(map(label_of, items))

    @property
    def is_stale(self) -> bool:
        """Whether a node or value of the match has since been removed from the graph."""
        return not all(map(_is_in_graph, (self.nodes, self.outputs, self.drops, self.captures)))

    @property
    def opset(self) -> int:
        """The version of the standard operator set that the graph imports."""
        return self.graph.opset

    def require_opset(self, version: int, before: str) -> None:
        """Refuse an older opset. `before` says what older opsets lack ("Gemm does not
        broadcast").
        """
        if self.opset < version:
            refuse(f"before opset {version} {before}", opset=version)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["captures"][name]
        except KeyError:
            raise AttributeError(f"the pattern captures no {name!r}") from None


def _is_in_graph(item: object) -> bool:
    if isinstance(item, Node):
        return item.is_in_graph
    if isinstance(item, Edge):
        return item.graph.values.get(item.name) is item
    if isinstance(item, Mapping):
        return all(map(_is_in_graph, item.values()))
    return not isinstance(item, tuple | list | set) or all(map(_is_in_graph, item))


def label_of(item: Node | Edge | Graph) -> str:
    """The name of a node, a value or a function."""
    if isinstance(item, Node):
        return item.label()
    return item.name if isinstance(item, Edge) else item.proto.name


@dataclass(frozen=True)
class Miss:
    """A node or constant that `find` rejected. `reason` is the first condition that does not
    hold.
    """

    item: Node | Edge
    reason: str


def find_each(find_at: Callable[[Node], Match], *operators: str) -> Find:
    """A `find` that calls `find_at` for every node of these operators, in topological order.
    `find_at` returns a match. If it refuses, the node is a miss.
    """

    def find(graph: Graph) -> Iterator[Match | Miss]:
        for node in [node for name in operators for node in graph.of_operator(name)]:
            if node.is_in_graph:
                try:
                    if node.has_references:
                        refuse("its attributes are parameters of the function that holds it")
                    yield find_at(node)
                except Refused as refusal:
                    yield Miss(node, refusal.reason)

    return find
