"""Whether a replacement is sound. This is checked before the graph changes.

The check guarantees for every pass:

- no other node uses an interior value of the match
- the graph stays acyclic
- element types and known shapes of replaced values stay
- graph outputs keep their names
- names in subgraphs still mean the same values
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from fusionc.model.graph import Constant, Edge, Graph, Node, Value
from fusionc.model.questions import refuse
from fusionc.rewrite.match import Match
from fusionc.rewrite.tape import Tape


@dataclass(frozen=True)
class Replacement:
    """A sound replacement."""

    tape: Tape
    nodes: list[Node]  # the new nodes
    positions: list[float]  # the topological positions of the new nodes
    constants: list[Constant]  # the new constants
    pairs: list[tuple[Edge, Edge]]  # each replaced value with its new value
    added: frozenset[Edge]  # all new values: constants, and outputs of new nodes


_SAME_NAME = "a subgraph gives another value the same name"


def check_private(match: Match) -> None:
    """Refuse a match whose interior values are used elsewhere."""
    inside = set(match.nodes)
    outputs = {None, *match.outputs}
    for value in [v for node in match.nodes for v in node.outputs if v not in outputs]:
        assert value is not None
        if value.is_output:
            refuse("an interior value is a graph output")
        if value.is_pinned:
            refuse("an annotation or training information names an interior value")
        if value.use_count > len(inside) or not inside.issuperset(value.outputs):
            refuse("an interior value is used elsewhere")


def check(match: Match, results: Sequence[Edge], tape: Tape) -> Replacement:
    """The replacement of `match.outputs` by `results`, which are on the tape or in the graph.

    Raises Refused if the replacement is not sound, and TypeError if the rewrite did not return a
    value for each output.
    """
    _require_values(match, results)
    results = _add_copies(match, results, tape)
    nodes = _reachable(results, tape)
    needed = [*dict.fromkeys([*chain.from_iterable(map(tape.reads, nodes)), *results])]
    constants = [v for v in needed if isinstance(v, Constant) and v in tape.constants]
    added = frozenset(filter(None, [*constants, *chain.from_iterable(n.outputs for n in nodes)]))
    existing = [value for value in needed if value is not None and value not in added]
    _require_in_graph(existing, match.graph)
    pairs = list(zip(match.outputs, results, strict=True))
    for old, new in pairs:
        _check_type(old, new, match)
        _check_names(old, new, tape, is_made=new in added)
    _check_moved(match.graph, tape)
    _check_distinct([new for old, new in pairs if old.is_output or new in added])
    positions = _positions(match, len(nodes), existing)
    return Replacement(tape, nodes, positions, constants, pairs, added)


def _check_distinct(renamed: list[Edge]) -> None:
    if len(set(renamed)) < len(renamed):
        refuse("two outputs would become one value")


def _require_values(match: Match, results: Sequence[object]) -> None:
    if len(results) != len(match.outputs):
        raise TypeError(
            f"the rewrite returned {len(results)} values for {len(match.outputs)} outputs"
        )
    if others := [type(new).__name__ for new in results if not isinstance(new, Edge)]:
        raise TypeError(f"the rewrite returned a {others[0]} instead of a value of the graph")


def _require_in_graph(values: Iterable[Edge], graph: Graph) -> None:
    """Refuse values that the graph cannot reach by their names."""
    for value in values:
        if graph.find(value.name) is not value:
            if value.graph.model is graph.model and value.graph.values.get(value.name) is value:
                refuse(_SAME_NAME)
            raise TypeError("the rewrite uses a value that is not in the graph (any more)")


def _check_moved(graph: Graph, tape: Tape) -> None:
    """Refuse to move subgraphs if a name of this graph means another value in them."""
    for old, _ in tape.moved.values():
        for body in old.subgraphs(recursive=True):
            if not graph.values.keys().isdisjoint(body.values):
                refuse(_SAME_NAME)


def _add_copies(match: Match, results: Sequence[Edge], tape: Tape) -> Sequence[Edge]:
    """The results. If a result cannot take over the name of a graph output, and the graph becomes
    smaller even with one more node, an Identity of the result takes its place.
    """
    is_bound = [_is_bound(old, new, tape) for old, new in zip(match.outputs, results, strict=True)]
    if not any(is_bound) or len(_reachable(results, tape)) + sum(is_bound) >= len(match.nodes):
        return results
    pairs = zip(results, is_bound, strict=True)
    return [tape.node("Identity", [new]) if bound else new for new, bound in pairs]


def _is_bound(old: Edge, new: Edge, tape: Tape) -> bool:
    """Whether the new value of a graph output cannot take over the name of the old value."""
    if not old.is_output or new is old or new in tape.constants:
        return False
    is_free = isinstance(new, Value) and new.producer is not None and new.graph is old.graph
    return (
        not is_free
        or new.is_output
        or new.is_pinned
        or any(u.graph.find(old.name) is not old for u in new.outputs)
    )


def _reachable(results: Iterable[Edge], tape: Tape) -> list[Node]:
    """The nodes of the tape that the results need, in the order of their creation. This order is
    topological.
    """
    needed = set(results)
    for node in reversed(tape.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(value for value in tape.reads(node) if value is not None)
    return [node for node in tape.nodes if not needed.isdisjoint(node.outputs)]


def _check_type(old: Edge, new: Edge, match: Match) -> None:
    if old.elem_type and new.elem_type and old.elem_type != new.elem_type:
        refuse("the element type would change")
    # Only the known types are compared: inference needs values that are in the graph.
    before = old.known_type.shape
    after = new.known_type.shape
    if before is not None and after is not None:
        if len(before) != len(after) or any(map(_differ, before, after)):
            refuse("the shape would change")
    elif match.literal_rank > 0:
        # The constant in x·[1] raises the rank of a scalar x to 1. If the rank of x is unknown,
        # removing the constant may therefore lower the rank of the result.
        refuse("the rank is unknown, and a constant may have raised it")


def _differ(a: int | str | None, b: int | str | None) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _check_names(old: Edge, new: Edge, tape: Tape, *, is_made: bool) -> None:
    if is_made:
        if isinstance(new, Constant) and old.is_output and new.graph.model.ir_version < 4:
            refuse("before IR version 4 a constant cannot be a graph output")
        return
    if new is old:
        refuse("the result is the same value as before")
    if old.is_pinned:
        refuse("an annotation or training information names the value")
    if _is_bound(old, new, tape):
        refuse("the result is a graph output and needs a name of its own")
    for user in () if old.is_output else old.outputs:
        if user.graph is not new.graph and user.graph.find(new.name) is not new:
            refuse(_SAME_NAME)


def _positions(match: Match, count: int, inputs: Sequence[Edge]) -> list[float]:
    """The topological positions of `count` new nodes: after the matched nodes and the producers of
    the inputs, and before the first consumer if possible.

    Refuses if an input of the replacement depends on a replaced value.
    """
    graph = match.graph
    inside = set(match.nodes)
    producers = {v.producer for v in inputs if v.producer is not None and v.graph is graph}
    if producers & inside:
        refuse("the replacement would use a value that it removes")
    latest = _last_position({*inside, *producers}, 0)
    users = [user for value in match.outputs for user in value.outputs if user not in inside]
    _require_no_cycle(graph, users, inside, producers, latest)
    following = filter(None, (node_in(graph, user) for user in users))
    first_use = min((node.position for node in following), default=math.inf)
    start = latest if latest < first_use else _last_position(producers, -1)
    step = max(min(first_use, start + 1) - start, 0.0) / (count + 1)
    return [start + step * (number + 1) for number in range(count)]


def _last_position(nodes: Iterable[Node], default: float) -> float:
    return max((node.position for node in nodes), default=default)


def _require_no_cycle(
    graph: Graph, users: Iterable[Node], inside: set[Node], producers: set[Node], latest: float
) -> None:
    """Refuse if a path leads from a consumer of a replaced value to a producer of the replacement's
    inputs.
    """
    seen = set(inside)
    stack = list(users)
    while stack:  # nodes after the last producer cannot be on such a path
        node = node_in(graph, stack.pop())
        if node is None or node in seen or node.position > latest:
            continue
        if node in producers:
            refuse("the replacement would form a cycle")
        seen.add(node)
        stack.extend(user for value in node.outputs if value is not None for user in value.outputs)


def node_in(graph: Graph, node: Node) -> Node | None:
    """The node of `graph` that is `node` or contains `node` in a subgraph."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        current = current.graph.owner
    return current
