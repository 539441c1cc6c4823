"""May a replacement stand where a match was? All of it is answered here, before anything in the
graph has changed.

What that guarantees for every pass: nobody else used what is replaced; no cycle; element types and
known shapes of replaced values stay; graph outputs can keep their names; subgraphs go on meaning
the same values by their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusionc.model.graph import Constant, Edge, Graph, Node, Value
from fusionc.model.questions import refuse
from fusionc.rewrite.match import Match
from fusionc.rewrite.tape import Tape


@dataclass(frozen=True)
class Replacement:
    """What may be spliced in: nodes with their places in the order, constants, and what each output
    becomes.
    """

    nodes: list[Node]
    positions: list[float]
    constants: list[Constant]
    pairs: list[tuple[Edge, Edge]]  # a value that is replaced, and the one that stands for it
    made: frozenset[Edge]  # all values that the graph has not yet


def check_private(match: Match) -> None:
    """Refuse a match whose interior values somebody else uses."""
    inside = set(match.nodes)
    outputs = set(match.outputs)
    made = (value for node in match.nodes for value in node.outputs if value is not None)
    for value in (value for value in made if value not in outputs):
        if value.is_output:
            refuse("an interior value is a graph output")
        if value.is_pinned:
            refuse("an annotation or training information names an interior value")
        if value.use_count > len(inside) or not inside.issuperset(value.outputs):
            refuse("an interior value is used elsewhere")


def check(match: Match, results: Sequence[Edge], tape: Tape) -> Replacement:
    """The replacement of `match.outputs` by `results`, which the tape has made or the graph has.

    Raises Refused where it would not be sound, TypeError where the rewrite returned something else
    than it must.
    """
    graph = match.graph
    if len(results) != len(match.outputs):
        raise TypeError(
            f"the rewrite returned {len(results)} values for {len(match.outputs)} outputs"
        )
    if others := [type(new).__name__ for new in results if not isinstance(new, Edge)]:
        raise TypeError(f"the rewrite returned a {others[0]} instead of a value of the graph")
    results = _with_copies(match, results, tape)
    nodes = _reachable(results, tape)
    needed = dict.fromkeys(
        v for v in (*(v for node in nodes for v in tape.reads(node)), *results) if v is not None
    )
    constants = [
        value for value in needed if isinstance(value, Constant) and value in tape.constants
    ]
    made = frozenset([*constants, *(v for node in nodes for v in node.outputs if v is not None)])
    given = [value for value in needed if value not in made]
    for value in (value for value in given if graph.find(value.name) is not value):
        if value.graph.model is graph.model and value.graph.values.get(value.name) is value:
            refuse("a subgraph gives another value the same name")
        raise TypeError("the rewrite uses a value that is not in the graph, or not any more")
    pairs = list(zip(match.outputs, results, strict=True))
    for old, new in pairs:
        _check_type(old, new, match)
        _check_names(old, new, tape, is_made=new in made)
    bodies = (body for old, _ in tape.moved.values() for body in old.subgraphs(recursive=True))
    if any(not graph.values.keys().isdisjoint(body.values) for body in bodies):
        refuse("a subgraph gives another value the same name")
    renamed = [new for old, new in pairs if old.is_output or new in made]
    if len(set(renamed)) < len(renamed):
        refuse("two outputs would become one value")
    return Replacement(nodes, _positions(match, len(nodes), given), constants, pairs, made)


def _with_copies(match: Match, results: Sequence[Edge], tape: Tape) -> Sequence[Edge]:
    """The results, with an Identity of each that cannot take over an output's name, where fewer
    nodes are left then.
    """
    is_bound = [_is_bound(old, new, tape) for old, new in zip(match.outputs, results, strict=True)]
    if not any(is_bound) or len(_reachable(results, tape)) + sum(is_bound) >= len(match.nodes):
        return results
    return [
        tape.node("Identity", [new]) if bound else new
        for new, bound in zip(results, is_bound, strict=True)
    ]


def _is_bound(old: Edge, new: Edge, tape: Tape) -> bool:
    """Whether a value has another name to keep, or none that it could have, where it is to be a
    graph output.
    """
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
    """The nodes of the tape that the results need, in the order they were made: each after those
    that it reads.
    """
    needed = set(results)
    for node in reversed(tape.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(value for value in tape.reads(node) if value is not None)
    return [node for node in tape.nodes if not needed.isdisjoint(node.outputs)]


def _check_type(old: Edge, new: Edge, match: Match) -> None:
    if old.elem_type and new.elem_type and old.elem_type != new.elem_type:
        refuse("the element type would change")
    # What is known by now: of the value that stands for a shape nothing more can be found out
    # before it is there.
    before = old.known_type.shape
    after = new.known_type.shape
    if before is not None and after is not None:
        pairs = list(zip(before, after, strict=False))
        if len(before) != len(after) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs
        ):
            refuse("the shape would change")
    elif match.literal_rank > 0:
        # x·[1] has at least rank 1; without knowing x's rank nobody knows whether dropping the
        # constant matters.
        refuse("the rank is unknown, and a constant may have raised it")


def _check_names(old: Edge, new: Edge, tape: Tape, *, is_made: bool) -> None:
    if is_made:
        if isinstance(new, Constant) and old.is_output and new.graph.model.ir_version < 4:
            refuse("before IR version 4 a constant cannot be a graph output")
        return
    if new is old:
        refuse("the result is the value itself")
    if old.is_pinned:
        refuse("an annotation or training information names the value")
    if _is_bound(old, new, tape):
        refuse("the result is a graph output and needs a name of its own")
    for user in () if old.is_output else old.outputs:
        if user.graph is not new.graph and user.graph.find(new.name) is not new:
            refuse("a subgraph gives another value the same name")


def _positions(match: Match, count: int, inputs: Sequence[Edge]) -> list[float]:
    """Where in the order `count` new nodes go: behind the root and the last input, before the first
    user if that can be.

    Refuses where an input of the replacement depends on what is replaced.
    """
    inside = set(match.nodes)
    producers = {v.producer for v in inputs if v.producer is not None and v.graph is match.graph}
    if producers & inside:
        refuse("the replacement would use a value that it removes")
    latest = max((node.position for node in (*inside, *producers)), default=0)
    seen: set[Node] = set()
    outside = [user for value in match.outputs for user in value.outputs if user not in inside]
    stack = list(outside)
    while stack:  # only nodes up to the last input can lead there
        node = node_in(match.graph, stack.pop())
        if node is None or node in seen or node in inside or node.position > latest:
            continue
        if node in producers:
            refuse("the replacement would form a cycle")
        seen.add(node)
        stack.extend(user for value in node.outputs if value is not None for user in value.outputs)
    following = (node_in(match.graph, user) for user in outside)
    first_use = min((node.position for node in following if node is not None), default=math.inf)
    behind = latest if latest < first_use else max((p.position for p in producers), default=-1.0)
    step = max(min(first_use, behind + 1) - behind, 0.0) / (count + 1)
    return [behind + step * (number + 1) for number in range(count)]


def node_in(graph: Graph, node: Node) -> Node | None:
    """The node of `graph` that is `node` or holds it in a subgraph."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        current = current.graph.owner
    return current
