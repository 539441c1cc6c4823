"""A pattern of which only a part is asked for: the rest is anything. The matcher says whether the
part is there.

What is asked for of an operator is counted by itself: the number of its inputs, each attribute,
each argument. One sub-formula object stays one node, whatever is asked for of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from fusionc.rewrite.pattern import (
    Among,
    Each,
    Either,
    Formula,
    Keep,
    Maybe,
    OpFormula,
    Out,
    Rest,
    Same,
    Var,
)

INPUTS = "number of inputs"
# INPUTS, the name of an attribute with = behind it, or the place of an argument
Condition = str | int
# an argument of an operator; of none, one of the outputs of the pattern
Slot = tuple[OpFormula | None, int]
_ONE_INSIDE = (Maybe, Keep, Same, Each, Among, Out)


@dataclass(frozen=True)
class Asked:
    """What is asked for: nothing but their operators of those `opened`, but what is listed with
    them, and everything of what is not opened. `chosen` are alternatives, by where the Either
    stands.
    """

    opened: Mapping[OpFormula | None, frozenset[Condition]] = field(
        default_factory=lambda: {None: frozenset()}
    )
    chosen: Mapping[tuple[Slot, tuple[int, ...]], int] = field(default_factory=dict)

    @property
    def key(self) -> object:
        """Equal for those that ask for the same."""
        return frozenset(self.opened.items()), frozenset(self.chosen.items())

    def with_condition(self, owner: OpFormula | None, condition: Condition) -> Asked:
        """This, and one thing more of an operator that is opened, or of the pattern."""
        return replace(self, opened={**self.opened, owner: self.opened[owner] | {condition}})

    def with_opened(
        self, formula: OpFormula, conditions: frozenset[Condition] = frozenset()
    ) -> Asked:
        """This, with nothing but these conditions for an operator."""
        return replace(self, opened={**self.opened, formula: conditions})

    def with_choice(self, slot: Slot, path: tuple[int, ...], alternative: int) -> Asked:
        """This, with one of the alternatives that stand there."""
        return replace(self, chosen={**self.chosen, (slot, path): alternative})


@dataclass(frozen=True)
class PartialFormula:
    """The formulas of a pattern with anything in the place of what is not asked for.

    `labels` are what the nodes of opened operators are captured as, `names` the values in the place
    of arguments.
    """

    formulas: tuple[Formula, ...]
    labels: Mapping[OpFormula, str]
    names: Mapping[Slot, str]

    @property
    def size(self) -> int:
        """How many operators it has; of alternatives, those of the shortest."""
        return len(frozenset().union(*map(operators_in, self.formulas)))


def partial_formula(formulas: Sequence[Formula], asked: Asked) -> PartialFormula:
    """What is asked for of these formulas, which further outputs may be left out of."""
    return _Writer(asked).write(formulas)


def conditions_of(formula: OpFormula) -> list[Condition]:
    """What can be asked for of an operator besides its arguments."""
    return [INPUTS, *(f"{name}=" for name in formula.attributes)]


def inside(formula: Formula) -> Formula | None:
    """The one formula that another one stands around, if that is all it does."""
    return formula.parts()[0] if isinstance(formula, _ONE_INSIDE) else None


@cache
def operators_in(formula: Formula) -> frozenset[OpFormula]:
    """The operators of a formula; of alternatives, those of the shortest."""
    below = [operators_in(part) for part in formula.parts()]
    if isinstance(formula, Either):
        return min(below, key=len)
    own = [frozenset([formula])] if isinstance(formula, OpFormula) else []
    return frozenset[OpFormula]().union(*own, *below)


class _Writer:
    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.labels: dict[OpFormula, str] = {}
        self.names: dict[Slot, str] = {}
        self.written: dict[Formula, Formula] = {}

    def write(self, formulas: Sequence[Formula]) -> PartialFormula:
        wanted = self.asked.opened[None]
        kept = [self._part(f, (None, at), ()) for at, f in enumerate(formulas) if at in wanted]
        return PartialFormula(tuple(kept), self.labels, self.names)

    def _part(self, formula: Formula, slot: Slot, path: tuple[int, ...]) -> Formula:
        match formula:
            case OpFormula():
                if formula not in self.written:
                    write = self._opened if formula in self.asked.opened else self._whole
                    self.written[formula] = write(formula)
                return self.written[formula]
            case Either(alternatives):
                number = self.asked.chosen.get((slot, path))
                if number is not None:
                    return self._part(alternatives[number], slot, (*path, number))
                parts = [
                    self._part(part, slot, (*path, at)) for at, part in enumerate(alternatives)
                ]
                return Either(tuple(parts)) if _differ(parts, alternatives) else formula
            case Out(node, index):
                written = self._part(node, slot, path)
                assert isinstance(written, OpFormula | Same)
                return formula if written is node else Out(written, index)
            case Same(inner):
                written = self._part(inner, slot, path)
                assert isinstance(written, OpFormula)
                return formula if written is inner else Same(written)
            case Maybe(inner) | Keep(inner) | Each(inner) | Among(inner):
                written = self._part(inner, slot, path)
                return formula if written is inner else type(formula)(written)
            case _:
                return formula

    def _whole(self, formula: OpFormula) -> OpFormula:
        args = [self._part(arg, (formula, at), ()) for at, arg in enumerate(formula.args)]
        return replace(formula, args=tuple(args)) if _differ(args, formula.args) else formula

    def _opened(self, formula: OpFormula) -> OpFormula:
        wanted = self.asked.opened[formula]
        label = self.labels.setdefault(formula, f"node {len(self.labels)}")
        args = [
            self._part(arg, (formula, at), ())
            if at in wanted
            else self._anything(arg, (formula, at))
            for at, arg in enumerate(formula.args)
        ]
        if INPUTS not in wanted and not any(
            isinstance(arg, Rest | Each | Among) for arg in args[-1:]
        ):
            args.append(Rest(""))
        attributes = {
            name: value for name, value in formula.attributes.items() if f"{name}=" in wanted
        }
        return OpFormula(formula.operators, tuple(args), attributes, label)

    def _anything(self, formula: Formula, slot: Slot) -> Formula:
        name = self.names.setdefault(slot, f"value {len(self.names)}")
        return Rest(name) if isinstance(formula, Rest | Each | Among) else Maybe(Var(name))


def _differ(parts: Sequence[Formula], others: Sequence[Formula]) -> bool:
    return any(part is not other for part, other in zip(parts, others, strict=True))
