"""The answer for one pass in a conversion: where it fired, which places other passes took first,
and why it does not fire elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from onnx import FunctionProto

from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.errors import quote
from fusionc.model.graph import Model
from fusionc.model.operators import qualified, short_name
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.why.area_places import notes_on_areas, places_without_area
from fusionc.why.nearest import Reason, reasons_of
from fusionc.why.pass_places import Place, places_of, roots_of
from fusionc.why.watched_conversion import Converted

_AS_GIVEN = "this is so in the given model; the converted model has nothing of it left"
_MOST_ROOTS = 12  # the largest number of operators that a note names
_INLINED = 'with --optimization_switch "FunctionInlinePass:on" its nodes move to where it is called'


@dataclass(frozen=True)
class Taken:
    """A match of the pass that another rewrite took."""

    nodes: tuple[str, ...]
    pattern: str
    reason: str  # why the pass had refused it; empty if another pass came first
    by: Commit  # the rewrite that took it


_Located = TypeVar("_Located", Place, Commit, Taken)


@dataclass(frozen=True)
class PassAnswer:
    """The answer for one pass."""

    name: str
    state: str  # whether the pass is on, and what switches it on
    fired: tuple[Commit, ...]  # its rewrites
    taken: tuple[Taken, ...]
    reasons: tuple[Reason, ...]  # why it does not fire elsewhere, nearest misses first
    notes: tuple[str, ...]


def state_of(pass_: Pass, plan: ConversionPlan) -> str:
    """Whether a pass runs, and what switches it on."""
    if pass_ in plan.passes:
        return "on"
    effect = "which no other switch overrides; the answer below assumes that the pass is on"
    if pass_.is_pattern_fusion and not plan.options.pattern_fusion_pass:
        return f"off by --pattern_fusion_pass false, {effect}"
    if pass_.name in plan.disabled:
        return f"off by --disable_pass of the graph kernel flags, {effect}"
    default = " by default" if pass_.default == "off" else ""
    return f'off{default}; --optimization_switch "{pass_.name}:on" switches it on, as assumed below'


def answer_of(pass_: Pass, done: Converted, state: str, near: Set[str] | None) -> PassAnswer:
    """The answer for a pass. Only places with a node in `near` count; `None` means all places."""
    fired = [commit for commit in done.commits if commit.pass_name == pass_.name]
    model = done.after
    if isinstance(pass_, AreaPass):
        places = list(places_without_area(pass_, done.fused))
    else:
        places = list(places_of(model, pass_, examine=done.examine))
    taken = _taken(pass_, done, fired, places)
    notes: list[str] = []
    if near is not None:
        places = _select_near(near, places)
        fired = _select_near(near, fired)
        taken = _select_near(near, taken)
        if not (places or fired or taken):
            model = done.before
            places = _select_near(near, places_of(model, pass_, examine=done.examine))
            notes = [_AS_GIVEN] if places else []
    reasons = reasons_of(places)
    notes += _functions(model, reasons)
    is_idle = not (reasons or fired or taken)
    notes += _notes(pass_, done, reasons, is_idle=is_idle, is_all=near is None)
    return PassAnswer(pass_.name, state, tuple(fired), tuple(taken), tuple(reasons), tuple(notes))


def _select_near(names: Set[str], there: Iterable[_Located]) -> list[_Located]:
    """The items that have one of these nodes."""
    return [one for one in there if not names.isdisjoint(one.nodes)]


def _taken(
    pass_: Pass, done: Converted, fired: Sequence[Commit], places: Sequence[Place]
) -> list[Taken]:
    """The matches that rewrites of other passes took. The pass had refused these matches, or would
    have rewritten them in the given model.

    `places` are the places of the pass in the converted model; a match that is still there does not
    count.
    """
    own = _takers(fired).keys()
    others = _takers(commit for commit in done.commits if commit.pass_name != pass_.name)
    still = {(place.graph_id, place.nodes) for place in places if place.is_match}
    taken: dict[tuple[int, tuple[str, ...]], Taken] = {}
    for place in _matches_before(pass_, done):
        nodes = [(place.graph_id, node) for node in place.nodes]
        takers = [others[node] for node in nodes if node in others]
        key = (place.graph_id, place.nodes)
        if takers and own.isdisjoint(nodes) and key not in still:
            by = min(takers, key=lambda commit: commit.number)
            taken.setdefault(key, Taken(place.nodes, place.pattern, place.reason, by))
    return list(taken.values())


def _matches_before(pass_: Pass, done: Converted) -> Iterator[Place]:
    """The matches that the pass refused while it ran, and those that it would have rewritten in the
    given model.
    """
    yield from (place for place in done.matched(pass_) if place.reason)
    given = places_of(done.before, pass_, only_matches=True, examine=done.examine)
    yield from (place for place in given if not place.reason)


def _takers(commits: Iterable[Commit]) -> dict[tuple[int, str], Commit]:
    """The first commit that took each node, by its graph and name."""
    takers: dict[tuple[int, str], Commit] = {}
    for commit in commits:
        for node in commit.nodes:
            takers.setdefault((commit.graph_id, node), commit)
    return takers


def _functions(model: Model, reasons: Sequence[Reason]) -> Iterator[str]:
    """Notes on the functions whose bodies have places with these reasons."""
    for graph_id in dict.fromkeys(reason.graph_id for reason in reasons):
        proto = model.graphs[graph_id].proto
        if isinstance(proto, FunctionProto):
            function = quote(short_name(proto.name, proto.domain))
            what = f"the function {function}, in which no types and shapes are known"
            yield f"graph {graph_id} is {what}; {_INLINED}"


def _notes(
    pass_: Pass, done: Converted, reasons: Sequence[Reason], *, is_idle: bool, is_all: bool
) -> Iterator[str]:
    """Further notes on a pass; `is_idle` says that it has no places to show."""
    if pass_.never_matches:
        yield f"it never matches: {pass_.never_matches}"
    if isinstance(pass_, AreaPass):
        yield from notes_on_areas(pass_, done.fused, is_idle=is_idle)
        return
    if reasons and not any(one.is_near for one in reasons):
        yield "no place is nearer: at these, only the first operator of a pattern fits"
    if is_idle:
        yield from _note_on_roots(pass_, done, is_all=is_all)


def _note_on_roots(pass_: Pass, done: Converted, *, is_all: bool) -> Iterator[str]:
    """A note that names the operators at which the patterns of a pass begin, or the patterns that
    search by themselves and have reported no candidate.
    """
    roots = dict.fromkeys(op for pattern in pass_.patterns for op in roots_of(pattern))
    begin = f"its patterns begin at {_shortened(list(roots))}"
    searches = [pattern for pattern in pass_.patterns if pattern.find]
    if roots and _operators_of(done).isdisjoint(roots):
        yield f"{begin}: the converted model has none of these"
    elif roots and not is_all:
        yield f"{begin}: none of these operators is near the node"
    elif searches:
        yield f"{', '.join(pattern.name for pattern in searches)}: the search reports no candidate"


def _operators_of(done: Converted) -> set[str]:
    """The operators of the converted model."""
    nodes = (node for graph in done.after.graphs for node in graph.nodes)
    return {qualified(node.op, node.domain) for node in nodes}


def _shortened(words: list[str]) -> str:
    return ", ".join([*words[:_MOST_ROOTS], *(["…"] if words[_MOST_ROOTS:] else [])])
