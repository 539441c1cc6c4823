"""How far a formula gets at a node where it does not match: which operators fit, and everything
that does not fit.

The matcher itself compares. When something does not fit, it asks a Search how to continue. A Trace
is a Search that notes what does not fit, and continues as if it did. If operands may be in several
orders, the order that is nearest to a match is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from fusionc.model.graph import Edge, Node
from fusionc.rewrite import matcher
from fusionc.rewrite.matcher import Inputs, NoSolution, Search, State
from fusionc.rewrite.pattern import Formula, OpFormula, operators_in

MORE_INPUTS = NoSolution()
NO_ALTERNATIVE = NoSolution()
_LEAF = 0.5  # the weight of a value or attribute that does not fit; an operator has the weight 1
_MOST = 4  # the largest number of equally near states that are followed


def trace(formulas: Sequence[Formula], anchor: Node) -> Trace:
    """How far the formulas get at a node. If the trace has no misfit, the formulas match there.

    Further outputs of a pattern are searched only if the first one fits completely, because
    otherwise it is not known where they would be.
    """
    start = State(anchor.graph, {}, {}, {}, search=Trace())
    values = [value for value in anchor.outputs if value is not None]
    states = _nearest(_traced(formulas[0], value, start, None, 0) for value in values)
    for place, formula in enumerate(formulas[1:], 1):
        if _trace_of(states[0]).misfits:
            break
        found = [
            matcher.solve(formula, v, states[0]) for v in matcher.candidates(formula, states[0])
        ]
        states = _nearest(found) or [
            _add_misfit(states[0], NO_ALTERNATIVE, None, place, formula, None)
        ]
    return _trace_of(states[0])


@dataclass(frozen=True, eq=False)
class Misfit:
    """One thing that does not fit."""

    why: NoSolution
    node: Node | None  # the node with the input or attribute; None for an output of the pattern
    place: int | str  # the number of the input or output, or the name of the attribute
    formula: Formula  # what the pattern needs there; for an attribute, the formula of its operator
    value: Edge | None  # what is there
    captures: Mapping[str, Any]  # values captured by the formula so far

    @cached_property
    def operators(self) -> frozenset[OpFormula]:
        """The operators of the formula that are missing because of this misfit."""
        is_leaf = self.why in (matcher.OTHER_ATTRIBUTE, MORE_INPUTS, matcher.OTHER_NODE)
        return frozenset() if is_leaf else operators_in(self.formula)

    @property
    def weight(self) -> float:
        """How much the misfit counts. An operator counts 1."""
        return len(self.operators) or _LEAF


@dataclass(frozen=True, eq=False)
class Trace(Search):
    """How much of a formula fits."""

    operators: frozenset[OpFormula] = frozenset()  # the operators that fit
    nodes: tuple[Node, ...] = ()  # the nodes that match these operators
    misfits: tuple[Misfit, ...] = ()  # in the order of the formula

    @cached_property
    def missing(self) -> float:
        """The weight of all misfits."""
        return sum(misfit.weight for misfit in self.misfits)

    @property
    def size(self) -> int:
        """How many operators the formula needs."""
        return len(self.operators.union(*(misfit.operators for misfit in self.misfits)))

    @property
    def distance(self) -> float:
        """How far the trace is from a match of the largest formula; smaller is nearer."""
        return self.missing - len(self.operators)

    def orders(self, formula: OpFormula, node: Node) -> list[Inputs]:
        return matcher.possible_orders(formula, node) or matcher.operand_orders(formula, node)

    def note_attribute(self, state: State, formula: OpFormula, node: Node, name: str) -> State:
        return _add_misfit(state, matcher.OTHER_ATTRIBUTE, node, name, formula, None)

    def solve_inputs(
        self, formula: OpFormula, node: Node, orders: Sequence[Inputs], state: State
    ) -> list[State]:
        own = Trace(self.operators | {formula}, (*self.nodes, node), self.misfits)
        here = state._replace(search=own)
        return _nearest(_trace_inputs(formula, node, inputs, here) for inputs in orders)

    def solve_item(
        self, inner: Formula, value: Edge | None, state: State, node: Node, place: int
    ) -> list[State]:
        return _traced(inner, value, state, node, place)


def _trace_of(state: State) -> Trace:
    assert isinstance(state.search, Trace)
    return state.search


def _add_misfit(
    state: State,
    why: NoSolution,
    node: Node | None,
    place: int | str,
    formula: Formula,
    value: Edge | None,
) -> State:
    """The state with one more thing that does not fit."""
    old = _trace_of(state)
    misfit = Misfit(why, node, place, formula, value, state.captures)
    return state._replace(search=Trace(old.operators, old.nodes, (*old.misfits, misfit)))


def _trace_inputs(formula: OpFormula, node: Node, inputs: Inputs, state: State) -> list[State]:
    """The nearest states after all arguments of the formula."""
    if not formula.takes_all and any(inputs[len(formula.args) :]):
        state = _add_misfit(state, MORE_INPUTS, node, 0, formula, None)
    states = [state]
    for place, arg in enumerate(formula.args):
        value = inputs[place] if place < len(inputs) else None
        states = _nearest(
            _solutions_or_misfit(
                matcher.solve_argument(arg, node, inputs, place, s), s, node, place, arg, value
            )
            for s in states
        )
    return states


def _traced(
    formula: Formula, value: Edge | None, state: State, node: Node | None, place: int
) -> list[State]:
    """The nearest states in which a formula fits a value. If the formula does not fit, the given
    state with one more misfit.
    """
    return _solutions_or_misfit(
        matcher.solve(formula, value, state), state, node, place, formula, value
    )


def _solutions_or_misfit(
    solutions: Iterable[State],
    state: State,
    node: Node | None,
    place: int,
    formula: Formula,
    value: Edge | None,
) -> list[State]:
    """The nearest of these solutions. If there are none, the given state with one more misfit."""
    why = solutions if isinstance(solutions, NoSolution) else NO_ALTERNATIVE
    return _nearest([solutions]) or [_add_misfit(state, why, node, place, formula, value)]


def _nearest(states: Iterable[Iterable[State]]) -> list[State]:
    """The traced states nearest to a match; several if they are equally near."""
    every = list(chain.from_iterable(states))
    least = min((_trace_of(state).distance for state in every), default=0.0)
    return [state for state in every if _trace_of(state).distance == least][:_MOST]
