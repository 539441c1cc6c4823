"""The passes over a row: which steps belong to which, and what is kept from one pass to the next.

A reduction is known after the pass that goes over all its elements, so what needs it belongs to the next pass. A step
that a later pass needs again is computed again if that is cheap, else it is kept in a buffer of the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fusionc.graph_kernel.kernels.index import Variable
from fusionc.graph_kernel.kernels.pull import Store
from fusionc.graph_kernel.kernels.steps import Step

_CHEAP = 4  # what it costs to compute a step again rather than to keep it
_READ = 2  # what it costs to read a buffer


@dataclass
class Phases:
    """`of` has the pass of each step that is needed; a step that does not depend on the row is known before it.

    `buffered` are the steps that are kept. `row` are the variables of the row.
    """

    stores: tuple[Store, ...]
    row: frozenset[Variable]
    of: dict[Step, int] = field(default_factory=dict)
    buffered: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        steps = self._needed()
        for step in steps:
            phase = max((self.of[argument] for argument in step.arguments), default=0)
            self.of[step] = phase + 1 if step.reduction else phase
        wanted = self._passes(steps, frozenset())
        cost: dict[Step, int] = {}
        kept: set[Step] = set()
        for step in steps:
            cost[step] = step.cost + sum(cost[a] for a in step.arguments)
            if not self.is_rowwise(step):
                cost[step] = 0
            elif cost[step] > _CHEAP and max(wanted[step], default=0) > self.of[step]:
                kept.add(step)
                cost[step] = _READ
        wanted = self._passes(steps, frozenset(kept))
        self.buffered = [s for s in steps if s in kept and max(wanted[s], default=0) > self.of[s]]

    @property
    def count(self) -> int:
        return 1 + max(self.of[store.step] for store in self.stores)

    def is_rowwise(self, step: Step) -> bool:
        return bool(step.variables & self.row)

    def is_stored_in_row(self, store: Store) -> bool:
        return bool(store.access.index.variables & self.row)

    def roots(self, phase: int) -> list[Step]:
        """The steps that a pass is there for: arguments of reductions, and what is stored or kept."""
        found = [s.arguments[0] for s in self.of if s.reduction and self.of[s] == phase + 1]
        found += [s.step for s in self.stores if self.is_stored_in_row(s) and self.of[s.step] == phase]
        return [*found, *(s for s in self.buffered if self.of[s] == phase)]

    def within(self, phase: int) -> list[Step]:
        """The steps of the row that a pass computes or reads from a buffer, arguments first."""
        known = {s for s in self.of if s.reduction or self.reads(s, phase)}
        return [s for s in _cone(self.roots(phase), known) if self.is_rowwise(s)]

    def reads(self, step: Step, phase: int) -> bool:
        """Whether a pass takes a step from its buffer."""
        return step in self.buffered and self.of[step] < phase

    def _needed(self) -> list[Step]:
        return _cone([store.step for store in self.stores], set())

    def _passes(self, steps: list[Step], kept: frozenset[Step]) -> dict[Step, set[int]]:
        """The passes in which each step is wanted, if those are kept."""
        wanted: dict[Step, set[int]] = defaultdict(set)
        for store in self.stores:
            if self.is_stored_in_row(store):
                wanted[store.step].add(self.of[store.step])
        for step in reversed(steps):
            computed = {self.of[step]} if step in kept or step.reduction else set(wanted[step])
            if step.reduction:
                computed = {self.of[step] - 1}
            for argument in step.arguments:
                wanted[argument] |= computed
        return wanted


def _cone(roots: Iterable[Step], ends: set[Step]) -> list[Step]:
    """All that steps are computed from, arguments first, as far as `ends`."""
    found: set[Step] = set()
    stack = list(roots)
    while stack:
        step = stack.pop()
        if step not in found:
            found.add(step)
            if step not in ends:
                stack += step.arguments
    return sorted(found, key=lambda step: step.number)
