"""The passes over a row, the steps that each computes, and the steps that are kept between them.

A loop nest visits each row in phases, one loop after another; a loop with much to compute visits it
block by block, in parts. Both are passes. A step that a later pass needs again is recomputed if
that is cheap; otherwise it is kept in a buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fusionc.graph_kernel.lower.index import Variable
from fusionc.graph_kernel.lower.lowering import Store
from fusionc.graph_kernel.lower.steps import Step

_CHEAP = 4  # the cost up to which a step is recomputed rather than kept
_READ = 2  # the cost of reading a buffer
HEAVY = 6  # the cost from which a step is heavy, such as an exponential


class LoopPasses:
    """The passes of `steps`, which have their arguments first; `of` has the pass of each.

    `roots` are the results of their own pass. `given` are already in buffers. `kept` are the steps
    that need buffers.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        of: Mapping[Step, int],
        roots: Sequence[Step],
        given: frozenset[Step],
    ) -> None:
        self._steps = steps
        self._of = of
        self._roots = roots
        self._given = given
        self.kept: list[Step] = []
        wanted = self._wanted()
        cost: dict[Step, int] = {}
        for step in steps:
            cost[step] = (
                _READ if step in given else step.cost + sum(cost.get(a, 0) for a in step.arguments)
            )
            if cost[step] > _CHEAP and max(wanted[step], default=0) > of[step]:
                self.kept.append(step)
                cost[step] = _READ
        wanted = self._wanted()
        self.kept = [step for step in self.kept if max(wanted[step], default=0) > of[step]]

    def within(self, number: int) -> list[Step]:
        """The steps that a pass computes or reads, arguments first."""
        ends = self._given.union(step for step in self.kept if self._of[step] < number)
        needed = {step for step in (*self._roots, *self.kept) if self._of[step] == number}
        for step in reversed(self._steps):
            if step in needed and step not in ends:
                needed.update(step.arguments)
        return [step for step in self._steps if step in needed]

    def reads(self, step: Step, number: int) -> bool:
        """Whether a pass reads a step from the buffer that an earlier pass has filled."""
        return step in self.kept and self._of[step] < number

    def _wanted(self) -> dict[Step, set[int]]:
        """The passes that need each step."""
        wanted: dict[Step, set[int]] = defaultdict(set)
        for step in self._roots:
            wanted[step].add(self._of[step])
        for step in reversed(self._steps):
            if step not in self._given:
                for argument in step.arguments:
                    wanted[argument] |= {self._of[step]} if step in self.kept else wanted[step]
        return wanted


class LoopSchedule:
    """The loops over a row, and the steps before, in and after each.

    A reduction is known after the loop over all its elements, so steps that need it belong to the
    next loop. `of` has the loop of each step; a step that does not depend on the row is computed
    before its loop.
    """

    def __init__(self, stores: Sequence[Store], row: frozenset[Variable]) -> None:
        self._stores = stores
        self._row = row
        self.of: dict[Step, int] = {}
        for step in _cone(store.step for store in stores):
            phase = max((self.of[argument] for argument in step.arguments), default=0)
            self.of[step] = phase + 1 if step.reduction else phase
        self.count = 1 + max(self.of[store.step] for store in stores)
        steps = [step for step in self.of if self.is_rowwise(step)]
        roots = [root for phase in range(self.count) for root in self.roots(phase)]
        self.passes = LoopPasses(
            steps, self.of, [root for root in roots if self.is_rowwise(root)], frozenset()
        )

    def is_rowwise(self, step: Step) -> bool:
        """Whether a step has another value for each element of the row."""
        return bool(step.variables & self._row)

    def is_stored_in_row(self, store: Store) -> bool:
        """Whether each element of the row is stored, not one value for the whole row."""
        return bool(store.access.index.variables & self._row)

    def reductions(self, phase: int) -> list[Step]:
        """The reductions that a loop completes."""
        return [step for step, its in self.of.items() if step.reduction and its == phase + 1]

    def roots(self, phase: int) -> list[Step]:
        """The steps that a loop exists for: arguments of reductions, and stored ones."""
        found = [step.arguments[0] for step in self.reductions(phase)]
        return [
            *found,
            *(
                s.step
                for s in self._stores
                if self.is_stored_in_row(s) and self.of[s.step] == phase
            ),
        ]


class LoopParts:
    """The parts of one loop over a row, each with at most one heavy step.

    A processor overlaps the computations of several elements only if each is short, so one part is
    computed for a block of elements before the next part.
    """

    def __init__(self, schedule: LoopSchedule, phase: int) -> None:
        steps = schedule.passes.within(phase)
        given = frozenset(step for step in steps if schedule.passes.reads(step, phase))
        self.of: dict[Step, int] = {}
        last = heavy = 0
        for step in steps:
            if step.cost >= HEAVY and step not in given:
                heavy += 1
                last += heavy > 1
            self.of[step] = last
        self.count = last + 1
        kept = [step for step in schedule.passes.kept if schedule.of[step] == phase]
        roots = [step for step in (*schedule.roots(phase), *kept) if schedule.is_rowwise(step)]
        self.passes = LoopPasses(steps, self.of, roots, given)


def _cone(roots: Iterable[Step]) -> list[Step]:
    """All steps that some steps are computed from, arguments first."""
    found: set[Step] = set()
    stack = list(roots)
    while stack:
        step = stack.pop()
        if step not in found:
            found.add(step)
            stack += step.arguments
    return sorted(found, key=lambda step: step.number)
