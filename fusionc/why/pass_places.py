"""The places of a model at which a pass could fire: where it would, where it is refused, and where
it nearly does.
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
from fusionc.model.operators import KERNELS
from fusionc.rewrite import Match, Miss, Pass, Pattern, Refused, Tape, matcher
from fusionc.rewrite.pattern import makers
from fusionc.rewrite.pipeline import absent_names, anchors_of, is_alive
from fusionc.rewrite.soundness import check, check_private
from fusionc.rewrite.trace import Misfit, Trace
from fusionc.target_opset.limits import newest_opset
from fusionc.why.first_reason import first_reason, named, node_text

_MOST_SEARCHED = 10_000  # matches of a pattern that finds its places itself
_OWN = "a condition of its own"  # one of which nothing can be said
_LOOKED_AT = 3  # nodes for each operator that is missing
# what a condition counts that does not hold, beside an operator that is not there
_CONDITION = 0.25


@dataclass(frozen=True)
class Place:
    """Where a pattern begins, and what happens there.

    `reason` says why nothing does, and is empty where the pass takes effect. Of the pattern's
    `size` operators, `fitting` are there; `unfit` things do not fit, `missing` being their weight.
    `beyond` of the missing operators are behind what does not fit. `is_match` says whether it is a
    match, which is refused then. `nodes` are those that fit, and those in the place of others.
    """

    graph_id: int
    pattern: str
    root: str
    reason: str
    nodes: tuple[str, ...]
    is_match: bool = True
    fitting: int = 1
    size: int = 1
    unfit: int = 0
    missing: float = 0.0
    beyond: int = 0

    @property
    def rank(self) -> tuple[float, ...]:
        """What is nearer to a match is less."""
        return (-self.is_match, self.missing - self.fitting - self.beyond, self.missing)

    @property
    def lacks_condition(self) -> bool:
        """Whether all that is wrong is a condition that does not hold."""
        return self.missing == _CONDITION

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the formula is missing, though a condition may not hold."""
        return self.missing <= _CONDITION


def places_of(model: Model, pass_: Pass, *, only_matches: bool = False) -> Iterator[Place]:
    """Every place of a pass, one for each node at which a pattern begins, in the order of the
    patterns.
    """
    for graph in model.graphs:
        if is_alive(graph) and getattr(graph.proto, "domain", "") != KERNELS:
            for pattern in pass_.patterns:
                search = _searched if pattern.find else _places_of_formula
                for place in search(pass_, pattern, graph):
                    if place.is_match or not only_matches:
                        yield place


def _searched(pass_: Pass, pattern: Pattern, graph: Graph) -> Iterator[Place]:
    """The places of a pattern that finds them itself."""
    for candidate in islice(pattern.find(graph) if pattern.find else (), _MOST_SEARCHED):
        if isinstance(candidate, Match):
            yield place_of_match(pass_, pattern, candidate)
        else:
            yield _left_candidate(pattern, candidate)


def _places_of_formula(pass_: Pass, pattern: Pattern, graph: Graph) -> Iterator[Place]:
    """The places of a pattern that is a formula."""
    absent = absent_names(pass_)
    for anchor in anchors_of(pattern, graph):
        match = matcher.match(pattern.formulas, anchor, absent)
        if match is not None:
            yield place_of_match(pass_, pattern, match)
        else:
            yield _nearly(pattern, matcher.trace(pattern.formulas, anchor), anchor)


def roots_of(pattern: Pattern) -> tuple[str, ...]:
    """The operators at which a pattern begins, or that it looks for, where it finds its places
    itself.
    """
    if pattern.find is not None:
        return pattern.operators
    return tuple(dict.fromkeys(op for _, op in makers(pattern.formulas[0]) or ()))


def _left_candidate(pattern: Pattern, miss: Miss) -> Place:
    """The place of a candidate that a search of the pattern's own left."""
    root = node_text(miss.node)
    reason = f"{root}: {miss.reason}"
    place = Place(miss.node.graph.id, pattern.name, root, reason, (miss.node.label(),))
    return replace(place, is_match=False, unfit=1, missing=_CONDITION)


def _nearly(pattern: Pattern, trace: Trace, anchor: Node) -> Place:
    values = [misfit.value for misfit in trace.misfits if misfit.value is not None]
    nodes = [anchor, *trace.nodes, *(value.producer for value in values if value.producer)]
    return Place(
        anchor.graph.id,
        pattern.name,
        node_text(anchor),
        first_reason(trace, anchor),
        tuple(dict.fromkeys(node.label() for node in nodes)),
        is_match=False,
        fitting=len(trace.operators),
        size=trace.size,
        unfit=len(trace.misfits),
        missing=trace.missing,
        beyond=sum(map(_beyond, trace.misfits)),
    )


def _beyond(misfit: Misfit) -> int:
    """How many operators of what does not fit come before it in the graph all the same, if they are
    most of them: one is another.
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
    """The nodes that a value is computed by, the nearest first."""
    pending = deque([value])
    seen = set[Node]()
    while pending:
        edge = pending.popleft()
        producer = None if edge is None else edge.producer
        if producer is not None and producer not in seen:
            seen.add(producer)
            pending.extend(producer.inputs)
            yield producer


def place_of_match(pass_: Pass, pattern: Pattern, match: Match) -> Place:
    """What would become of a match."""
    root = node_text(match.nodes[0]) if match.nodes else ", ".join(map(named, match.labels))
    size = max(len(match.nodes), 1)
    place = Place(match.graph.id, pattern.name, root, "", match.labels, fitting=size, size=size)
    try:
        if unmet := pattern.unmet(match):
            what = f"{root}: a condition of the pattern does not hold: {_condition(unmet)}"
            return replace(place, reason=what, is_match=False, unfit=1, missing=_CONDITION)
        reason = _refusal(pass_, pattern, match)
    except (
        Exception
    ) as error:  # a user's pass may fail in any way where the conversion did not try it
        reason = f"{pass_.name} fails here: {said(error)}"
    return replace(place, reason=reason and f"{root}: {reason}")


@np.errstate(all="ignore")
def _refusal(pass_: Pass, pattern: Pattern, match: Match) -> str:
    """Why a match would not take effect, tried without changing anything; empty where it would."""
    try:
        check_private(match)
    except Refused:
        return _user_inside(match)
    tape = Tape(match.graph)
    try:
        returned = (pattern.rewrite or pass_.rewrite)(match, tape)
        results = (
            ()
            if returned is None
            else returned
            if isinstance(returned, tuple | list)
            else (returned,)
        )
        check(match, results, tape)
    except Refused as refusal:
        return refusal.reason + _opset_advice(match.opset, refusal.opset)
    return ""


def _opset_advice(own: int, wanted: int) -> str:
    """What to do about an opset for which alone a match is refused; 0 is none."""
    if not wanted:
        return ""
    known = (
        f"--target_opset {wanted} would do"
        if wanted <= newest_opset()
        else "newer than this onnxruntime runs"
    )
    return f": {own} < {wanted}, {known}"


def _user_inside(match: Match) -> str:
    """The value inside that is not only the match's."""
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
    """What a condition asks for: by its docstring, or else as it is called or written."""
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
    """The text of a condition that has no name, as it stands in its file."""
    try:
        lines, _ = inspect.findsource(code)
    except OSError:  # the file has gone
        return _OWN
    starts = {
        (line, at) for line, _, at, _ in code.co_positions() if line is not None and at is not None
    }
    bodies = (
        node.body for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.Lambda)
    )
    texts = (ast.unparse(body) for body in bodies if (body.lineno, body.col_offset) in starts)
    return next(texts, _OWN)
