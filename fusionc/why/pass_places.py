"""The places of a model at which a pass could fire: where it would, where it is refused, and where
it nearly fires.
"""

from __future__ import annotations

import ast
import inspect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from types import CodeType

import numpy as np

from fusionc.errors import said
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.operators import qualified
from fusionc.requested.target_opset.limits import newest_opset
from fusionc.rewrite import Match, Miss, Pass, Pattern, Refused, matcher
from fusionc.rewrite.match import label_of
from fusionc.rewrite.pattern import makers
from fusionc.rewrite.pipeline import absent_names, anchors_of, replacement_of, rewritable_graphs
from fusionc.rewrite.soundness import check_private
from fusionc.why.first_reason import first_reason, named, node_text
from fusionc.why.trace import Misfit, Trace, trace

_MOST_SEARCHED = 10_000  # matches of a pattern that searches by itself
_OWN = "a condition of its own"  # one without a docstring, name or text
_LOOKED_AT = 3  # nodes that are examined for each missing operator
# the weight of a condition that does not hold; a missing operator has the weight 1
_CONDITION = 0.25
Examine = Callable[..., None]


def allow(*_: object) -> None:
    """Refuses no rewrite."""


@dataclass(frozen=True)
class Place:
    """Where a pattern begins, and what happens there."""

    graph_id: int
    pattern: str
    root: str  # the node at which it begins
    reason: str  # why nothing happens; empty if the pass takes effect
    nodes: tuple[str, ...]  # the nodes that fit, and the nodes in place of expected ones
    is_match: bool = True  # whether the pattern matches; if it has a reason, the pass refuses it
    fitting: int = 1  # operators of the pattern that fit
    size: int = 1  # operators of the pattern
    unfit: int = 0  # things that do not fit
    missing: float = 0.0  # the total weight of the things that do not fit; an operator weighs 1
    beyond: int = 0  # missing operators that come before a misfit in the graph

    @property
    def rank(self) -> tuple[float, ...]:
        """The sort key: places nearer to a match come first."""
        return (-self.is_match, self.missing - self.fitting - self.beyond, self.missing)

    @property
    def lacks_condition(self) -> bool:
        """Whether the only thing wrong is a condition that does not hold."""
        return self.missing == _CONDITION

    @property
    def is_whole(self) -> bool:
        """Whether the whole formula fits, though a condition may not hold."""
        return self.missing <= _CONDITION


def places_of(
    model: Model, pass_: Pass, *, only_matches: bool = False, examine: Examine = allow
) -> Iterator[Place]:
    """Every place of a pass, in the order of its patterns: one for each node at which a pattern
    begins. `examine` may refuse rewrites, as in `RewriteLog`.
    """
    for graph in rewritable_graphs(model):
        for pattern in pass_.patterns:
            search = _searched if pattern.find else _places_of_formula
            for place in search(pass_, pattern, graph, examine):
                if place.is_match or not only_matches:
                    yield place


def _searched(pass_: Pass, pattern: Pattern, graph: Graph, examine: Examine) -> Iterator[Place]:
    """The places of a pattern that searches by itself."""
    matches = 0
    for candidate in pattern.find(graph) if pattern.find else ():
        if isinstance(candidate, Miss):
            yield _left_candidate(pattern, candidate)
            continue
        yield place_of_match(pass_, pattern, candidate, examine)
        matches += 1
        if matches == _MOST_SEARCHED:
            break


def _places_of_formula(
    pass_: Pass, pattern: Pattern, graph: Graph, examine: Examine
) -> Iterator[Place]:
    """The places of a pattern that is a formula."""
    absent = absent_names(pass_)
    for anchor in anchors_of(pattern, graph):
        match = matcher.match(pattern.formulas, anchor, absent)
        if match is not None:
            yield place_of_match(pass_, pattern, match, examine)
        else:
            yield _nearly(pattern, trace(pattern.formulas, anchor), anchor)


def roots_of(pattern: Pattern) -> tuple[str, ...]:
    """The operators at which a pattern begins. If it searches by itself, these are the operators
    that it looks for.
    """
    if pattern.find is not None:
        return pattern.operators
    operators = makers(pattern.formulas[0]) or ()
    return tuple(dict.fromkeys(qualified(op, domain) for domain, op in operators))


def _left_candidate(pattern: Pattern, miss: Miss) -> Place:
    """The place of a candidate that a search rejected."""
    label = label_of(miss.item)
    root = node_text(miss.item) if isinstance(miss.item, Node) else f"constant {named(label)}"
    place = Place(miss.item.graph.id, pattern.name, root, f"{root}: {miss.reason}", (label,))
    return replace(place, is_match=False, unfit=1, missing=_CONDITION)


def _nearly(pattern: Pattern, furthest: Trace, anchor: Node) -> Place:
    values = [misfit.value for misfit in furthest.misfits if misfit.value is not None]
    nodes = [anchor, *furthest.nodes, *(value.producer for value in values if value.producer)]
    return Place(
        anchor.graph.id,
        pattern.name,
        node_text(anchor),
        first_reason(furthest, anchor),
        tuple(dict.fromkeys(node.label() for node in nodes)),
        is_match=False,
        fitting=len(furthest.operators),
        size=furthest.size,
        unfit=len(furthest.misfits),
        missing=furthest.missing,
        beyond=sum(map(_beyond, furthest.misfits)),
    )


def _beyond(misfit: Misfit) -> int:
    """How many of the missing operators come before the misfit in the graph. Returns 0 unless more
    than half of them do: otherwise the misfit is not just an unexpected operator in between.
    """
    if not misfit.operators:
        return 0
    wanted = [formula.operators for formula in misfit.operators]
    count = len(wanted)
    for node in islice(_nodes_before(misfit.value), _LOOKED_AT * count):
        fitting = [operators for operators in wanted if node.operator in operators]
        if fitting:
            wanted.remove(fitting[0])
    passed = count - len(wanted)
    return passed if 2 * passed > count else 0


def _nodes_before(value: Edge | None) -> Iterator[Node]:
    """The nodes that compute a value, the nearest first."""
    pending = deque([value])
    seen = set[Node]()
    while pending:
        edge = pending.popleft()
        producer = None if edge is None else edge.producer
        if producer is not None and producer not in seen:
            seen.add(producer)
            pending.extend(producer.inputs)
            yield producer


def place_of_match(pass_: Pass, pattern: Pattern, match: Match, examine: Examine = allow) -> Place:
    """The place of a match, with the outcome that its rewrite would have."""
    root = node_text(match.nodes[0]) if match.nodes else ", ".join(map(named, match.labels))
    size = max(len(match.nodes), 1)
    place = Place(match.graph.id, pattern.name, root, "", match.labels, fitting=size, size=size)
    try:
        if unmet := pattern.unmet(match):
            what = f"{root}: a condition of the pattern does not hold: {_condition(unmet)}"
            return replace(place, reason=what, is_match=False, unfit=1, missing=_CONDITION)
        reason = _refusal(pass_, pattern, match, examine)
    except (
        Exception
    ) as error:  # a user's pass may fail in any way at a place that the conversion did not try
        reason = f"{pass_.name} fails here: {said(error)}"
    return replace(place, reason=reason and f"{root}: {reason}")


@np.errstate(all="ignore")
def _refusal(pass_: Pass, pattern: Pattern, match: Match, examine: Examine) -> str:
    """Why a match would not take effect; empty if it would. Nothing is changed to find out."""
    try:
        check_private(match)
    except Refused:
        return _user_inside(match)
    try:
        new = replacement_of(pass_, pattern, match)
        examine(None, pass_, match, new, new.tape)
    except Refused as refusal:
        return refusal.reason + _opset_advice(match.opset, refusal.opset)
    return ""


def _opset_advice(own: int, wanted: int) -> str:
    """What to do if only the opset is too old. `wanted` is the opset that would do, or 0 if the
    opset is not the reason.
    """
    if not wanted:
        return ""
    known = (
        f"--target_opset {wanted} would do"
        if wanted <= newest_opset()
        else "newer than this onnxruntime runs"
    )
    return f": {own} < {wanted}, {known}"


def _user_inside(match: Match) -> str:
    """Which interior value is used elsewhere, and by which nodes."""
    inside = set(match.nodes)
    for value in (
        value
        for node in match.nodes
        for value in node.outputs
        if value not in (None, *match.outputs)
    ):
        assert value is not None
        if value.is_output:
            return f"interior value {named(value.name)} is an output of the graph"
        if users := [node_text(node) for node in value.outputs if node not in inside]:
            others = f" and {len(users) - 1} more" if users[1:] else ""
            return f"interior value {named(value.name)} is used by {users[0]}{others}"
    return "an interior value is used elsewhere"


def _condition(where: Callable[[Match], bool]) -> str:
    """What a condition requires: its docstring, or else its name or its text."""
    if not inspect.isfunction(where):
        return _OWN
    if where.__doc__:
        sentence = " ".join(inspect.cleandoc(where.__doc__).split()).split(". ")[0].rstrip(".")
        return sentence.removeprefix("Whether ")
    return (
        where.__name__.strip("_").replace("_", " ")
        if where.__name__ != "<lambda>"
        else _written(where.__code__)
    )


def _written(code: CodeType) -> str:
    """The text of a lambda, as it is written in its file."""
    try:
        lines, _ = inspect.findsource(code)
    except OSError:  # the file no longer exists
        return _OWN
    starts = {
        (line, at) for line, _, at, _ in code.co_positions() if line is not None and at is not None
    }
    bodies = (
        node.body for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.Lambda)
    )
    texts = (ast.unparse(body) for body in bodies if (body.lineno, body.col_offset) in starts)
    return next(texts, _OWN)
