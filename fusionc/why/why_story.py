"""Convert as the user asks, then find where the pass fired, was refused, and nearly fired."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from fusionc.attempt.conversion_plan import float32_plan_of
from fusionc.attempt.running import running
from fusionc.custom.loading import load_passes
from fusionc.disk.load import load
from fusionc.errors import UsageError, advice, quote
from fusionc.model.graph import Model
from fusionc.options import Options
from fusionc.report.rewrite_text import described
from fusionc.rewrite import Pass
from fusionc.shapes.inference import typed_model
from fusionc.switches import PassNames
from fusionc.why.dequantizations import (
    DEQUANTIZATION,
    Dequantization,
    concerned_passes,
    dequantizations,
)
from fusionc.why.expected_fusions import ExpectedOperator, expected_operators, makers_of
from fusionc.why.first_reason import named
from fusionc.why.pass_answer import PassAnswer, answer_of, state_of
from fusionc.why.watched_conversion import Converted, converted

_SUGGESTED = 3  # the largest number of suggested names of nodes


@dataclass(frozen=True)
class ExpectedAnswer:
    """An operator that another optimizer made, and the answers for it."""

    operator: ExpectedOperator
    taken_by: tuple[str, ...]  # the passes that rewrote its nodes
    passes: tuple[PassAnswer, ...]  # the answers, for its places, of the passes that make it


@dataclass(frozen=True)
class Answer:
    """The answer of `fusionc why`."""

    passes: tuple[PassAnswer, ...] = ()  # for the passes of the requested name
    expected: tuple[ExpectedAnswer, ...] = ()  # for each operator that was expected
    node: tuple[str, ...] = ()  # sentences about the node in question
    dequantizations: tuple[Dequantization, ...] = ()  # those that the converted model still has

    def as_json(self) -> dict[str, Any]:
        """The answer as plain data."""
        return asdict(self)


def why(options: Options, name: str | None, node: str | None, expected: Path | None) -> Answer:
    """Why the passes called `name` do not fire: anywhere, or at `node` if that is given.

    `expected` is the result of another optimizer for the same model. If it is given, the answer
    says for each fusion that only the other optimizer made why the passes called `name` did not
    make it; without a name, why all passes that could make it did not. If the name is
    DequantizeLinear, the answer says why each DequantizeLinear stays. Raises UsageError if the
    pass, the node or the model does not exist.
    """
    with running(options) as plog:
        registry = load_passes(options.custom_passes)
        asked = _passes_in_question(name, registry)
        plan = float32_plan_of(options, plog, "why")
        state = partial(state_of, plan=plan)
        if name == DEQUANTIZATION:
            done = converted(plan, registry, [])
            stays = dequantizations(done, asked, _nodes_in_question(done, node))
            return Answer(node=_said_of_node(done, node), dequantizations=tuple(stays))
        if expected is None:
            done = converted(plan, registry, asked)
            near = _nodes_in_question(done, node)
            answers = tuple(answer_of(p, done, state(p), near) for p in asked)
            return Answer(answers, (), _said_of_node(done, node))
        done = converted(plan, registry, [p for p in asked if p in plan.passes])
        near = _nodes_in_question(done, node)
        other = typed_model(load(expected), os.fspath(expected.parent), options.target)
        operators = _operators_in_question(done, other, near)
        answers_of = tuple(_expected_answer(one, asked, done, state) for one in operators)
        return Answer((), answers_of, _said_of_node(done, node))


def _passes_in_question(name: str | None, registry: Sequence[Pass]) -> list[Pass]:
    if name is None:
        return list(registry)
    return concerned_passes(registry) if name == DEQUANTIZATION else passes_called(name, registry)


def _operators_in_question(
    done: Converted, other: Model, near: set[str] | None
) -> list[ExpectedOperator]:
    """The operators that the other optimizer made more often than fusionc, from nodes in `near`."""
    operators = expected_operators(done.before, done.after, other)
    return [one for one in operators if near is None or not near.isdisjoint(one.nodes)]


def _nodes_in_question(done: Converted, node: str | None) -> set[str] | None:
    """The node in question, and the nodes that passes have made from it. Raises UsageError if the
    model does not have the node.
    """
    if node is None:
        return None
    known = done.nodes()
    if node not in known:
        hint = advice(node, known, f"the nearest names are: {', '.join(_nearest(node, known))}")
        raise UsageError(
            f"the model has no node {quote(node)}", where="--node", hint=hint, code="E10001"
        )
    return done.made_of([node])


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """Names that contain this one, or are most similar to it."""
    names = dict.fromkeys(known)
    holding = [other for other in names if name.casefold() in other.casefold()]
    return holding[:_SUGGESTED] or get_close_matches(name, names, n=_SUGGESTED, cutoff=0)


def _expected_answer(
    expected: ExpectedOperator, asked: Sequence[Pass], done: Converted, state: Callable[[Pass], str]
) -> ExpectedAnswer:
    near = done.made_of(expected.nodes) if expected.nodes else None
    makers = makers_of(expected.operator, asked)
    answers = [answer_of(p, done, state(p), near) for p in makers]
    told = tuple(one for one in answers if one.taken or one.reasons or one.fired)
    taken_by = dict.fromkeys(
        c.pass_name for c in done.commits if not set(expected.nodes).isdisjoint(c.nodes)
    )
    return ExpectedAnswer(expected, tuple(taken_by), told)


def passes_called(name: str, registry: Sequence[Pass]) -> list[Pass]:
    """The passes of a name or alias. Raises UsageError if there are none."""
    names = PassNames(registry)
    found = names.find(name)
    if not found and names.is_ascend_only(name):
        hint = '"fusionc passes" lists the passes that exist here'
        raise UsageError(
            f"{quote(name)} exists only on Ascend: no pass here does the same",
            where="PASS",
            hint=hint,
            code="E10001",
        )
    if not found:
        hint = '"fusionc passes" without a name lists all passes'
        raise UsageError(names.complaint(name), where="PASS", hint=hint, code="E10001")
    return list(found)


def _said_of_node(done: Converted, name: str | None) -> tuple[str, ...]:
    """Which rewrites took the node, and its operator in the result if the result has the node."""
    if name is None:
        return ()
    said = [
        f"{named(name)} was part of {described(commit)}"
        for commit in done.commits
        if name in commit.nodes
    ]
    there = [node for graph in done.after.graphs for node in graph.nodes if node.label() == name]
    return (
        *said,
        *(f"in the result, the operator of {named(name)} is {node.op}" for node in there[:1]),
    )
