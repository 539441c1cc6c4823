"""How far a pattern gets at a node where it does not match: the largest part of it that the matcher
finds there.

What the whole pattern asks for is tried piece by piece, from its root on: what fits is kept, what
does not is opened and its own pieces are tried, and what is left of that in the end does not fit.
Nothing here knows how a formula is matched: each answer is the matcher's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusionc.model.graph import Node
from fusionc.rewrite import Match, matcher
from fusionc.rewrite.pattern import Either, Formula, OpFormula
from fusionc.why.partial_formula import (
    Asked,
    Condition,
    PartialFormula,
    Slot,
    conditions_of,
    inside,
    operators_in,
    partial_formula,
)

_LEAF = 0.5  # what a value or an attribute counts that does not fit, beside an operator


@dataclass(frozen=True)
class Unfit:
    """What does not fit: a condition of an operator, or the formula that stands for one of its
    arguments, or for an output of the pattern.
    """

    owner: OpFormula | None
    condition: Condition
    formula: Formula | None = None

    @property
    def operators(self) -> int:
        """How many operators are not there for it."""
        return 0 if self.formula is None else len(operators_in(self.formula))

    @property
    def weight(self) -> float:
        """What it counts, an operator being 1."""
        return self.operators or _LEAF


@dataclass(frozen=True)
class Furthest:
    """The largest part of a pattern that is there. `unfit` is in the order of the formula, what is
    first being first.

    `found` is None where not even the operator of the root is.
    """

    found: Match | None
    part: PartialFormula
    unfit: tuple[Unfit, ...]


@dataclass(frozen=True)
class _Attempt:
    asked: Asked
    unfit: tuple[Unfit, ...] = ()

    def without(
        self, owner: OpFormula | None, condition: Condition, formula: Formula | None = None
    ) -> _Attempt:
        return replace(self, unfit=(*self.unfit, Unfit(owner, condition, formula)))


class PatternSearch:
    """Asks for parts of one pattern at node after node; what was written for one is there for the
    next.
    """

    def __init__(self, formulas: Sequence[Formula], absent: Mapping[str, None]) -> None:
        self.formulas = formulas
        self._absent = absent
        self._written: dict[object, PartialFormula] = {}

    def whole(self, anchor: Node) -> Match | None:
        """The match that the engine finds there."""
        return matcher.match(self.formulas, anchor, self._absent)

    def furthest(self, anchor: Node) -> Furthest:
        """How far the pattern gets at a node where it does not match."""
        return _AtNode(self, anchor).search()

    def part(self, asked: Asked) -> PartialFormula:
        """The part of the pattern that is asked for."""
        key = asked.key
        if key not in self._written:
            self._written[key] = partial_formula(self.formulas, asked)
        return self._written[key]


class _AtNode:
    def __init__(self, pattern: PatternSearch, anchor: Node) -> None:
        self.pattern = pattern
        self.anchor = anchor

    def search(self) -> Furthest:
        attempt = _Attempt(Asked())
        for at, formula in enumerate(self.pattern.formulas):
            attempt = self._add(attempt, (None, at), (), formula)
            if attempt.unfit and not at:
                # without the whole of the first output, nobody knows where another one would be
                break
        part = self.pattern.part(attempt.asked)
        found = matcher.match(part.formulas, self.anchor, {}) if part.formulas else None
        return Furthest(found, part, attempt.unfit)

    def _is_there(self, asked: Asked) -> bool:
        return matcher.match(self.pattern.part(asked).formulas, self.anchor, {}) is not None

    def _add(
        self, attempt: _Attempt, slot: Slot, path: tuple[int, ...], formula: Formula
    ) -> _Attempt:
        """As much of `formula` at this place as fits besides what is asked for already."""
        asked = attempt.asked.with_condition(*slot)
        if self._is_there(asked):
            return replace(attempt, asked=asked)
        return self._add_parts(attempt, slot, path, formula)

    def _add_parts(
        self, attempt: _Attempt, slot: Slot, path: tuple[int, ...], formula: Formula
    ) -> _Attempt:
        inner = inside(formula)
        if inner is not None:
            found = self._add_parts(attempt, slot, path, inner)
            return attempt.without(*slot, formula) if found.unfit[-1].formula is inner else found
        if isinstance(formula, Either):
            return self._add_alternative(attempt, slot, path, formula)
        if isinstance(formula, OpFormula) and formula not in attempt.asked.opened:
            asked = attempt.asked.with_condition(*slot)
            links = range(len(formula.args)) if slot[0] is None and slot[1] else ()
            for conditions in (frozenset[Condition](), *(frozenset([at]) for at in links)):
                opened = asked.with_opened(formula, conditions)
                if self._is_there(opened):
                    return self._add_arguments(replace(attempt, asked=opened), formula)
        return attempt.without(*slot, formula)

    def _add_alternative(
        self, attempt: _Attempt, slot: Slot, path: tuple[int, ...], formula: Either
    ) -> _Attempt:
        """The alternative that gets furthest; none where no operator of any is there."""
        found = []
        for at, alternative in enumerate(formula.alternatives):
            chosen = replace(attempt, asked=attempt.asked.with_choice(slot, path, at))
            found.append(self._add(chosen, slot, (*path, at), alternative))
        further = [one for one in found if self._size(one) > self._size(attempt)]
        if not further:
            return attempt.without(*slot, formula)
        return max(
            further, key=lambda one: (self._size(one), -sum(unfit.weight for unfit in one.unfit))
        )

    def _size(self, attempt: _Attempt) -> int:
        return self.pattern.part(attempt.asked).size

    def _add_arguments(self, attempt: _Attempt, formula: OpFormula) -> _Attempt:
        """What else is asked for of an operator that is there: all that fits as it is, then of the
        rest what fits.
        """
        for condition in conditions_of(formula):
            asked = attempt.asked.with_condition(formula, condition)
            attempt = (
                replace(attempt, asked=asked)
                if self._is_there(asked)
                else attempt.without(formula, condition)
            )
        left = []
        for at, arg in enumerate(formula.args):
            asked = attempt.asked.with_condition(formula, at)
            if self._is_there(asked):
                attempt = replace(attempt, asked=asked)
            else:
                left.append((at, arg))
        for at, arg in left:
            attempt = self._add(attempt, (formula, at), (), arg)
        return attempt
