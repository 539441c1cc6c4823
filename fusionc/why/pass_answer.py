"""What there is to say of one pass in a conversion: where it fired, who was there first, and why it
does not fire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from onnx import FunctionProto

from fusionc.errors import quote
from fusionc.model.graph import Model
from fusionc.model.operators import short_name
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.rewrite import Pass, Pattern
from fusionc.rewrite.log import Commit
from fusionc.why.area_places import notes_on_areas, places_without_area
from fusionc.why.nearest import Reason, reasons_of
from fusionc.why.pass_places import Place, places_of, roots_of
from fusionc.why.watched_conversion import Converted

_AS_GIVEN = "that is so in the model as it is given: in the converted one nothing is left of it"
_MOST_ROOTS = 12  # operators that are named
_INLINED = 'with --optimization_switch "FunctionInlinePass:on" its nodes go where it is called'


@dataclass(frozen=True)
class Taken:
    """A match of the pass that another rewrite took: before the pass ran, or after it had refused
    it for `reason`.
    """

    nodes: tuple[str, ...]
    pattern: str
    reason: str
    by: Commit


@dataclass(frozen=True)
class PassAnswer:
    """What there is to say of one pass: whether it is on, where it fired, which places others took
    first, and why it does not fire in others, the nearest misses first.
    """

    name: str
    state: str
    fired: tuple[Commit, ...]
    taken: tuple[Taken, ...]
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]


def state_of(pass_: Pass, enabled: Collection[str], *, pattern_fusion_pass: bool) -> str:
    """Whether a pass runs, and what switches it on."""
    if pass_.name in enabled:
        return "on"
    if pass_.is_pattern_fusion and not pattern_fusion_pass:
        return "off by --pattern_fusion_pass false, which no other switch undoes; below, it is as if it were on"
    default = " by default" if pass_.default == "off" else ""
    return (
        f'off{default}; --optimization_switch "{pass_.name}:on" switches it on, as is assumed below'
    )


def answer_of(pass_: Pass, done: Converted, state: str, near: Set[str] | None) -> PassAnswer:
    """What there is to say of a pass; `near` are nodes of which a place has to have one, None for
    all places.
    """
    fired = [commit for commit in done.commits if commit.pass_name == pass_.name]
    model = done.after
    places = list(
        places_without_area(pass_, done.fused)
        if isinstance(pass_, AreaPass)
        else places_of(model, pass_)
    )
    taken = _taken(pass_, done, fired, places)
    notes: list[str] = []
    if near is not None:
        places = [place for place in places if not near.isdisjoint(place.nodes)]
        fired = [commit for commit in fired if not near.isdisjoint(commit.nodes)]
        taken = [one for one in taken if not near.isdisjoint(one.nodes)]
        if not (places or fired or taken):
            model = done.before
            places = [
                place for place in places_of(model, pass_) if not near.isdisjoint(place.nodes)
            ]
            notes = [_AS_GIVEN] if places else []
    reasons = reasons_of(places)
    notes += _functions(model, reasons)
    notes += _notes(pass_, done, reasons, has_others=bool(fired or taken), is_all=near is None)
    return PassAnswer(pass_.name, state, tuple(fired), tuple(taken), tuple(reasons), tuple(notes))


def _taken(
    pass_: Pass, done: Converted, fired: Sequence[Commit], left: Sequence[Place]
) -> list[Taken]:
    """What the pass would have rewritten in the given model, or what it refused, and another
    rewrite took.

    `left` are the places in the converted model.
    """
    own = {(commit.graph_id, node) for commit in fired for node in commit.nodes}
    others: dict[tuple[int, str], Commit] = {}
    for commit in done.commits:
        if commit.pass_name != pass_.name:
            others |= {
                (commit.graph_id, node): commit
                for node in commit.nodes
                if (commit.graph_id, node) not in others
            }
    refused = [place for place in done.matched(pass_) if place.reason]
    sound = [
        p for p in places_of(done.before, pass_, only_matches=True) if p.is_match and not p.reason
    ]
    still = {(place.graph_id, place.nodes) for place in left if place.is_match}
    found: dict[tuple[int, tuple[str, ...]], Taken] = {}
    for place in (*refused, *sound):
        nodes = [(place.graph_id, node) for node in place.nodes]
        takers = [others[node] for node in nodes if node in others]
        key = (place.graph_id, place.nodes)
        if takers and own.isdisjoint(nodes) and key not in still:
            by = min(takers, key=lambda commit: commit.number)
            found.setdefault(key, Taken(place.nodes, place.pattern, place.reason, by))
    return list(found.values())


def _functions(model: Model, reasons: Sequence[Reason]) -> Iterator[str]:
    """What holds in the bodies of functions in which there are reasons."""
    for graph_id in dict.fromkeys(reason.graph_id for reason in reasons):
        proto = model.graphs[graph_id].proto
        if isinstance(proto, FunctionProto):
            function = quote(short_name(proto.name, proto.domain))
            yield f"graph {graph_id} is the function {function}, in which no types and shapes are known; {_INLINED}"


def _notes(
    pass_: Pass, done: Converted, reasons: Sequence[Reason], *, has_others: bool, is_all: bool
) -> Iterator[str]:
    """What else there is to know of a pass that has these reasons not to fire, or none."""
    if pass_.never_matches:
        yield f"it never matches: {pass_.never_matches}"
    if isinstance(pass_, AreaPass):
        yield from notes_on_areas(pass_, done.fused, is_idle=not reasons and not has_others)
        return
    there = Counter(one.op for graph in done.after.graphs for one in graph.nodes)
    told = {reason.pattern for reason in reasons}
    yield from _silent_searches([p for p in pass_.patterns if p.find and p.name not in told], there)
    roots = dict.fromkeys(op for pattern in pass_.patterns for op in roots_of(pattern))
    if reasons and not any(one.is_near for one in reasons):
        yield "nothing is nearer: these places have only the first operator of a pattern"
    if not reasons and not has_others and roots:
        begin = f"its patterns begin at {_shortened(list(roots))}"
        if there.keys().isdisjoint(roots):
            yield f"{begin}: the converted model has none of these"
        elif not is_all:
            yield f"{begin}: nothing of that is here"


def _silent_searches(patterns: Sequence[Pattern], there: Mapping[str, int]) -> Iterator[str]:
    """That these patterns find their places themselves, and have told of no candidate."""
    if not patterns:
        return
    operators = dict.fromkeys(op for pattern in patterns for op in pattern.operators)
    counts = ", ".join(f"{op} (the converted model has {there[op] or 'none'})" for op in operators)
    what = f" for {counts}" if counts else ""
    names = ", ".join(pattern.name for pattern in patterns)
    yield f"{names}: a search of its own{what}, which says nothing of near misses"


def _shortened(words: list[str]) -> str:
    return ", ".join([*words[:_MOST_ROOTS], *(["…"] if words[_MOST_ROOTS:] else [])])
