"""Schedule the steps of a loop nest: the passes over a row, the steps that each pass computes, and
the steps whose values are kept between passes.

A loop nest visits each row in phases: one loop after another. A loop with much to compute is
divided into parts, which take turns: each part computes one block of the row, and then the next
part does. Phases and parts are both called passes. If a later pass needs a step again, the step is
either recomputed, if that is cheap, or its value is kept in a buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fusionc.graph_kernel.lower.index import Variable
from fusionc.graph_kernel.lower.lowering import Store
from fusionc.graph_kernel.lower.steps import Step

_CHEAP = 4  # the highest cost at which a step is recomputed instead of kept
_READ = 2  # the cost of reading a buffer
HEAVY = 6  # the lowest cost of a heavy step, such as an exponential


class LoopPasses:
    """The passes that compute `steps`. In `steps`, arguments come before the steps that use them.
    `of` maps each step to its pass.

    `roots` are the steps that the passes must compute in any case. The values of the steps `given`
    are in buffers already. `kept` are the steps that need new buffers.
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
        """The steps that a pass computes or reads from buffers. Arguments come first."""
        ends = self._given.union(step for step in self.kept if self._of[step] < number)
        needed = {step for step in (*self._roots, *self.kept) if self._of[step] == number}
        for step in reversed(self._steps):
            if step in needed and step not in ends:
                needed.update(step.arguments)
        return [step for step in self._steps if step in needed]

    def reads(self, step: Step, number: int) -> bool:
        """Whether a pass reads a step from a buffer that an earlier pass has filled."""
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
    """The loops over a row, and the steps that are computed before, in and after each loop.

    The result of a reduction is known only after the loop over all its elements. So steps that need
    it belong to the next loop. `of` maps each step to the number of its loop. A step that has the
    same value for the whole row is computed before its loop.
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
        """Whether the value of a step is different for different elements of the row."""
        return bool(step.variables & self._row)

    def is_stored_in_row(self, store: Store) -> bool:
        """Whether one element is stored for each element of the row, and not one for the whole
        row.
        """
        return bool(store.access.index.variables & self._row)

    def reductions(self, phase: int) -> list[Step]:
        """The reductions that a loop completes."""
        return [step for step, its in self.of.items() if step.reduction and its == phase + 1]

    def roots(self, phase: int) -> list[Step]:
        """The row's steps that a loop must compute: arguments of reductions, and values to
        store.
        """
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
    """The parts of one loop over a row. Each part has at most one heavy step, such as an
    exponential.

    A processor overlaps the computations of several elements only if each of them is short. So each
    part is computed for a whole block of elements before the next part is.
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
    """The `roots` and all steps from which they are computed. Arguments come first."""
    found: set[Step] = set()
    stack = list(roots)
    while stack:
        step = stack.pop()
        if step not in found:
            found.add(step)
            stack += step.arguments
    return sorted(found, key=lambda step: step.number)
