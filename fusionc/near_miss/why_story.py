"""The story: convert as asked for, then look where the pass fired, was refused, and nearly fired."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from fusionc.comparison.model_nodes import nodes_of_graphs
from fusionc.custom.loading import load_passes
from fusionc.errors import UsageError, advice, quote
from fusionc.job import Job, job_of, running
from fusionc.model.graph import Model
from fusionc.near_miss.first_reason import named
from fusionc.near_miss.nearest import Reason, reasons_of
from fusionc.near_miss.pass_places import Place, places_of, roots_of
from fusionc.near_miss.watched_pass import Watched
from fusionc.node_origin import origin_of
from fusionc.options import Options
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.report.rewrite_text import described
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.shapes.inference import typed_model
from fusionc.switches import PassNames
from fusionc.target_opset import raise_opset

_MOST_ROOTS = 12  # operators that are named


@dataclass(frozen=True)
class Taken:
    """A match of the pass that another rewrite took: before the pass ran, or after it had refused it for `reason`."""

    nodes: tuple[str, ...]
    pattern: str
    reason: str
    by: Commit


@dataclass(frozen=True)
class PassAnswer:
    """What there is to say of one pass: whether it is on, where it fired, which places others took first, and why it
    does not fire in others, the nearest misses first."""

    name: str
    state: str
    fired: tuple[Commit, ...]
    taken: tuple[Taken, ...]
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What `fusionc why` answers: of each pass of that name, and of the node that was asked for."""

    passes: tuple[PassAnswer, ...]
    node: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Converted:
    """A model before and after its conversion, with the rewrites that took effect, and what those who are asked
    matched meanwhile."""

    before: Model
    after: Model
    commits: Sequence[Commit]
    watched: Mapping[str, Watched]


def why(options: Options, name: str, node: str | None) -> Answer:
    """Why the passes of this name do not fire, at all or at this node.

    Raises UsageError where there is no such pass or node.
    """
    with running(options) as plog:
        registry = load_passes(options.custom_passes)
        asked = passes_called(name, registry)
        job = job_of(options, plog)
        enabled = {p.name for p in job.passes}
        done = converted(job, registry, asked)
        if node is not None:
            _require_node(done, node)
        answers = [_answer(p, done, node, state_of(p, enabled)) for p in asked]
        return Answer(tuple(answers), () if node is None else _said_of_node(done, node))


def passes_called(name: str, registry: Sequence[Pass]) -> list[Pass]:
    """The passes of a name or alias. Raises UsageError where there is none."""
    names = PassNames(registry)
    found = names.find(name)
    if not found and names.is_ascend_only(name):
        hint = '"fusionc passes" lists those that do'
        raise UsageError(
            f"{quote(name)} is Ascend only: no pass here does that", where="PASS", hint=hint, code="E10001"
        )
    if not found:
        hint = '"fusionc passes" without a name lists all of them'
        raise UsageError(names.complaint(name), where="PASS", hint=hint, code="E10001")
    return list(found)


def converted(job: Job, registry: Sequence[Pass], asked: Sequence[Pass]) -> Converted:
    """The conversion of a job, in which those who are asked run, too."""
    watched = {p.name: Watched(p) for p in asked}
    wanted = {p.name for p in (*job.passes, *asked)}
    job.passes = [watched[p.name].running if p.name in watched else p for p in registry if p.name in wanted]
    commits: list[Commit] = []

    def note(commit: Commit, *_: object) -> None:
        commits.append(commit)

    done = job.optimized(job.original(), examine=[note])
    original = job.original()
    if job.options.target_opset is not None:
        original = raise_opset(original, job.options.target_opset)
    before, after = (_typed(proto, job.options) for proto in (original, done.proto))
    return Converted(before, after, commits, watched)


def _typed(proto: onnx.ModelProto, options: Options) -> Model:
    return typed_model(proto, os.fspath(options.source.parent), options.target)


def state_of(pass_: Pass, enabled: set[str]) -> str:
    """Whether a pass runs, and what switches it on."""
    if pass_.name in enabled:
        return "on"
    default = " by default" if pass_.default == "off" else ""
    return f'off{default}; --optimization_switch "{pass_.name}:on" switches it on, as is assumed below'


def _answer(pass_: Pass, done: Converted, node: str | None, state: str) -> PassAnswer:
    fired = [commit for commit in done.commits if commit.pass_name == pass_.name]
    places = list(places_of(done.after, pass_))
    taken = _taken(pass_, done, fired, places)
    if node is not None:
        near = {node, *_made_of(done.after, node)}
        places = [place for place in places if near.intersection(place.nodes)]
        fired = [commit for commit in fired if node in commit.nodes]
        taken = [one for one in taken if node in one.nodes]
    reasons = reasons_of(places)
    notes = tuple(_notes(pass_, done, reasons, bool(fired or taken), node))
    return PassAnswer(pass_.name, state, tuple(fired), tuple(taken), tuple(reasons), notes)


def _taken(pass_: Pass, done: Converted, fired: Sequence[Commit], left: Sequence[Place]) -> list[Taken]:
    """What the pass would have rewritten in the given model, or what it refused, and another rewrite took.

    `left` are the places in the converted model.
    """
    own = {(commit.graph_id, node) for commit in fired for node in commit.nodes}
    others: dict[tuple[int, str], Commit] = {}
    for commit in done.commits:
        if commit.pass_name != pass_.name:
            others |= {
                (commit.graph_id, node): commit for node in commit.nodes if (commit.graph_id, node) not in others
            }
    refused = [place for place in done.watched[pass_.name].places.values() if place.reason]
    sound = [p for p in places_of(done.before, pass_, only_matches=True) if p.is_match and not p.reason]
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


def _notes(
    pass_: Pass, done: Converted, reasons: Sequence[Reason], has_others: bool, node: str | None
) -> Iterator[str]:
    """What else there is to know of a pass that has these reasons not to fire, or none."""
    if pass_.never_matches:
        yield f"it never matches: {pass_.never_matches}"
    if isinstance(pass_, AreaPass):
        yield "graph kernel fusion does its work: docs/graph_kernel.md says how to see what became of each operator"
        return
    searching = [pattern for pattern in pass_.patterns if pattern.find is not None]
    if searching:
        operators = ", ".join(dict.fromkeys(op for pattern in searching for op in pattern.operators))
        whose = ", ".join(pattern.name for pattern in searching)
        what = f" for {operators}" if operators else ""
        yield f"{whose}: a search of its own{what}, which says nothing of near misses"
    roots = dict.fromkeys(op for pattern in pass_.patterns for op in roots_of(pattern))
    if reasons and not any(one.is_match or one.fitting > 1 or one.size == 1 for one in reasons):
        yield "nothing here has more than the first operator in common with a pattern"
    if not reasons and not has_others and roots:
        there = {one.op for graph in done.after.graphs for one in graph.nodes}
        begin = f"its patterns begin at {_shortened(list(roots))}"
        if there.isdisjoint(roots):
            yield f"{begin}: the converted model has none of these"
        elif node is not None:
            yield f"{begin}: none of them is near {named(node)}"


def _shortened(words: list[str]) -> str:
    return ", ".join([*words[:_MOST_ROOTS], *(["…"] if words[_MOST_ROOTS:] else [])])


def _require_node(done: Converted, name: str) -> None:
    known = [node.label() for model in (done.before, done.after) for graph in model.graphs for node in graph.nodes]
    if name not in known:
        hint = advice(name, known, "the nodes of the model have other names")
        raise UsageError(f"the model has no node {quote(name)}", where="--node", hint=hint, code="E10001")


def _made_of(model: Model, name: str) -> set[str]:
    """The nodes that say that a pass has made them of this one."""
    made = ((node.label(), origin_of(node.proto)) for node in nodes_of_graphs(model))
    return {label for label, origin in made if origin is not None and name in origin.sources}


def _said_of_node(done: Converted, name: str) -> tuple[str, ...]:
    """Which rewrites took the node, and whether it is still there."""
    said = [f"{named(name)} was part of {described(commit)}" for commit in done.commits if name in commit.nodes]
    there = [node for graph in done.after.graphs for node in graph.nodes if node.label() == name]
    return (
        *said,
        *(
            f"{named(name)} is {'a' if node.op[0] not in 'AEIOU' else 'an'} {node.op} of the result"
            for node in there[:1]
        ),
    )
