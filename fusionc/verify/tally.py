"""Counts of a judge over all samples, and their summary in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusionc.verify.compare import Mismatch, tells_something
from fusionc.verify.excuses import STEPS_ONE_IN, Excused, Excuses, size_of
from fusionc.verify.grid_steps import Stepped
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.order_dependence import Reach
from fusionc.verify.second_run import Unsteady


@dataclass
class Tally:
    """Counts of compared, excused and omitted elements and samples. The reference is the original
    model, the candidate the optimized one. A step is a number that a quantization or rounding can
    give.
    """

    names: Sequence[str]  # of the outputs
    runs: int = 0  # samples on which the models are equal
    left_out: int = 0  # samples on which the reference proves nothing
    moves: float = 0.0  # how much rounding changes the reference, as a share of the largest value
    is_undecided: bool = True  # False as soon as the models are equal on an ordinary sample
    excuses: Excuses = field(default_factory=Excuses)  # elements that rounding decides
    unsteady: Unsteady = field(default_factory=Unsteady)  # elements that differ in each run
    never_finite: set[str] = field(init=False)  # outputs that had only NaN and infinities
    # elements in which the models differ only by rounding that the reference amplifies
    _amplified: Excuses = field(default_factory=Excuses)
    # elements that the candidate rounds to the next step
    _steps: Excuses = field(default_factory=lambda: Excuses(STEPS_ONE_IN, one_each=True))
    _inner_steps: int = 0  # samples whose steps are inside quantized operators

    def __post_init__(self) -> None:
        self.never_finite = set(self.names)

    def include(self, other: Tally) -> None:
        """Add the excuses of another tally."""
        self.excuses.include(other.excuses)
        self._amplified.include(other._amplified)
        self._steps.include(other._steps)
        self._inner_steps += other._inner_steps

    def add_same(
        self,
        sample: Sample,
        amplified: Mapping[str, Mismatch],
        excused: Mapping[str, Excused],
        unsteady: Sequence[Reach | None],
    ) -> None:
        """Count a sample on which the models are equal, except for excused elements and for the
        mismatches `amplified`, which come from rounding that the reference amplifies.
        """
        outputs = dict(zip(self.names, sample.outputs, strict=True))
        if not sample.edge:
            for name, value in outputs.items():
                self.excuses.take(name, excused.get(name) or Excused(0, size_of(value), 0, 0.0))
        self.unsteady.add(self.names, unsteady)
        self._amplified.add(excused if amplified else {})
        self.excuses.add({} if amplified else excused)
        self.is_undecided &= sample.edge
        self.never_finite -= {name for name in self.never_finite if tells_something(outputs[name])}
        self.runs += 1

    def has_room_for_steps(self, stepped: Stepped) -> bool:
        """Whether these steps may be excused together with those of earlier samples."""
        return all(self._steps.has_room(*steps) for steps in stepped.limited.items())

    def add_steps(self, stepped: Stepped) -> None:
        """Count the steps of one sample."""
        self._steps.add(stepped.steps)
        self._inner_steps += not any(one.elements for one in stepped.steps.values())
        for name, one in stepped.limited.items():
            self._steps.take(name, one)

    def summary(self, failures: Sequence[str]) -> str:
        """A sentence about runs with equal results. `failures` say why the reference did not run on
        other inputs.
        """
        parts = [f"equal in {self.runs} {'run' if self.runs == 1 else 'runs'}"]
        parts += self.exceptions()
        parts += self.unsteady.notes(self.names)
        if self.left_out:
            parts.append(f"{self.left_out} left out where the reference is unstable")
        if self.moves and (self._amplified.samples or self.left_out):
            parts.append(self.movement)
        if self.never_finite:
            which = ", ".join(name for name in self.names if name in self.never_finite)
            parts.append(
                f"of {which} only NaN and infinities were compared: other inputs would show more"
            )
        parts += [
            f"{number} left out, on which the reference fails: {why}"
            for why, number in Counter(failures).items()
        ]
        return "; ".join(parts)

    def exceptions(self) -> Iterator[str]:
        """What was excused on samples with equal results."""
        if self._amplified.samples:
            within = "within the rounding that the reference itself amplifies"
            yield f"in {self._amplified.samples} of them {within} ({self._amplified})"
        if self.excuses.samples:
            decided = "the order of a reduction or rounding decides them"
            yield f"in {self.excuses.samples} of them except for {self.excuses}: {decided}"
        if self._steps.samples:
            counts = f"{self._steps.elements:,} of {self._steps.compared:,}"
            which = f"{counts} quantized or rounded elements, which are on the next step"
            yield f"in {self._steps.samples} of them except for {which}"
        if self._inner_steps:
            which = "steps that are taken inside of quantized operators"
            yield f"in {self._inner_steps} of them except for {which}"

    @property
    def movement(self) -> str:
        """A description of how much the reference changes if its inputs and weights are rounded."""
        if not self.moves:
            return "everything depends on the order of reductions"
        return (
            f"the reference's outputs move by {100 * self.moves:.2g} % of the largest value when "
            "its inputs and weights move by one unit in the last place"
        )
