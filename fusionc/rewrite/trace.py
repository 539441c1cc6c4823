"""How far a formula gets at a node where it does not match: which operators are there, and each
thing that does not fit.

The matcher fills it in: nothing is judged a second time. `fusionc why` puts it into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusionc.model.graph import Edge, Node
from fusionc.rewrite.pattern import Formula, OpFormula, operators_in

_LEAF = 0.5  # what a value or an attribute counts that does not fit; an operator counts 1


class NoSolution(tuple[Any, ...]):
    """An empty tuple of solutions. Which one it is says why there are none."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


LEFT_OUT = NoSolution()
NOT_LEFT_OUT = NoSolution()
NOT_CONSTANT = NoSolution()
UNKNOWN_SHAPE = NoSolution()  # of a constant that would have to be one number
OTHER_NUMBER = NoSolution()
OTHER_VALUE = NoSolution()  # than in another place of the formula
OTHER_OPERATOR = NoSolution()
OTHER_OUTPUT = NoSolution()  # of the right operator
OTHER_NODE = NoSolution()  # than in another place of the formula
OTHER_GRAPH = NoSolution()
ODD_NODE = NoSolution()  # the right operator, but one that no formula means
OTHER_ATTRIBUTE = NoSolution()
MORE_INPUTS = NoSolution()
NO_ALTERNATIVE = NoSolution()


@dataclass(frozen=True, eq=False)
class Misfit:
    """One thing that does not fit."""

    why: NoSolution
    node: Node | None  # the one whose input or attribute it is; None: an output of the pattern
    place: int | str  # the number of the input, the name of the attribute, the number of the output
    formula: Formula  # what would have to be there; of an attribute, the operator that has it
    value: Edge | None  # what is there
    captures: Mapping[str, Any]  # of the formula, before it got there

    @cached_property
    def operators(self) -> frozenset[OpFormula]:
        """The operators that are missing for it."""
        is_leaf = self.why in (OTHER_ATTRIBUTE, MORE_INPUTS, OTHER_NODE)
        return frozenset() if is_leaf else operators_in(self.formula)

    @property
    def weight(self) -> float:
        """What it counts, an operator being 1."""
        return len(self.operators) or _LEAF


@dataclass(frozen=True, eq=False)
class Trace:
    """What of a formula is there: its `operators`, which are `nodes`. `misfits` are in the order of
    the formula.
    """

    operators: frozenset[OpFormula] = frozenset()
    nodes: tuple[Node, ...] = ()
    misfits: tuple[Misfit, ...] = ()

    @cached_property
    def missing(self) -> float:
        """The weight of what does not fit."""
        return sum(misfit.weight for misfit in self.misfits)

    @property
    def size(self) -> int:
        """How many operators would have to be there."""
        return len(self.operators.union(*(misfit.operators for misfit in self.misfits)))

    @property
    def distance(self) -> float:
        """How far it is from a match of the largest formula; less is nearer."""
        return self.missing - len(self.operators)

    def with_node(self, formula: OpFormula, node: Node) -> Trace:
        """This, and one operator more that is there."""
        return Trace(self.operators | {formula}, (*self.nodes, node), self.misfits)

    def without(self, misfit: Misfit) -> Trace:
        """This, and one thing more that does not fit."""
        return Trace(self.operators, self.nodes, (*self.misfits, misfit))
