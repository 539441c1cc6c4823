"""How far a formula gets at a node where it does not match: which operators fit, and everything
that does not fit.

The matcher fills it in, so nothing is judged twice. `fusionc why` puts it into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusionc.model.graph import Edge, Node
from fusionc.rewrite.pattern import Formula, OpFormula, operators_in

_LEAF = 0.5  # weight of a value or an attribute that does not fit; an operator counts 1


class NoSolution(tuple[Any, ...]):
    """An empty tuple of solutions. Its identity tells why there are none."""

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
ODD_NODE = NoSolution()  # the right operator in a form that no formula means
OTHER_ATTRIBUTE = NoSolution()
MORE_INPUTS = NoSolution()
NO_ALTERNATIVE = NoSolution()


@dataclass(frozen=True, eq=False)
class Misfit:
    """One thing that does not fit."""

    why: NoSolution
    node: Node | None  # whose input or attribute it is; None: an output of the pattern
    place: int | str  # the number of the input, the name of the attribute, the number of the output
    formula: Formula  # what the pattern needs there; for an attribute, its operator
    value: Edge | None  # what is there
    captures: Mapping[str, Any]  # of the formula so far

    @cached_property
    def operators(self) -> frozenset[OpFormula]:
        """The operators that are missing for it."""
        is_leaf = self.why in (OTHER_ATTRIBUTE, MORE_INPUTS, OTHER_NODE)
        return frozenset() if is_leaf else operators_in(self.formula)

    @property
    def weight(self) -> float:
        """How much it counts; one operator counts 1."""
        return len(self.operators) or _LEAF


@dataclass(frozen=True, eq=False)
class Trace:
    """How much of a formula fits."""

    operators: frozenset[OpFormula] = frozenset()  # that fit
    nodes: tuple[Node, ...] = ()  # that are these operators
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
        """How far it is from a match of the largest formula; smaller is nearer."""
        return self.missing - len(self.operators)

    def add_node(self, formula: OpFormula, node: Node) -> Trace:
        """This trace with one more operator that fits."""
        return Trace(self.operators | {formula}, (*self.nodes, node), self.misfits)

    def add_misfit(self, misfit: Misfit) -> Trace:
        """This trace with one more misfit."""
        return Trace(self.operators, self.nodes, (*self.misfits, misfit))
