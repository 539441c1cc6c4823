"""Run the candidate (the optimized model) on every sample on which the reference (the original
model) runs, both with onnxruntime's optimizers off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import inf
from pathlib import Path
from time import monotonic

from fusionc.errors import FusioncError
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Runner, runs_so_far
from fusionc.verify.budget import Budget
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.judge import Judge, Outcome
from fusionc.verify.output_errors import ErrorTable
from fusionc.verify.reference import MOST_KEPT, bytes_of
from fusionc.verify.result import Difference
from fusionc.verify.side_by_side import Outputs, fewest_elements, share_off, stacked

# seconds after which no more samples run, because the budget cannot predict the runs of loops
_PATIENCE = 300.0
_FAILS = "the reference runs, but the candidate does not"
# the share of an output that may differ at ties (inputs whose last bit decides a result)
_FEW_OFF = 1 / 50
_MOST_JUDGED = 4  # of many samples, only this many are judged: those with the largest errors
_DECIDES_NOTHING = ("unstable", "undecided")


@dataclass
class SampleRuns:
    """Runs the candidate on one sample after the other, and compares its outputs with those of the
    reference.

    `judge` belongs to the reference; `table` has the errors of the outputs. If the reference is
    unstable on a sample, neither a difference nor equality proves anything, so the sample is left
    out. If the sample was drawn for a seed, other values are drawn instead.
    """

    path: Path
    candidate: Runner
    reference: Runner
    given: GivenSamples
    search: InputSearch
    judge: Judge
    progress: Callable[[str], None]
    # False if a number at a tie may be on the next step (the next number that a Quantize or Round
    # can give), as with kernels
    is_strict: bool = True
    # whether ordinary samples have no differences that need an excuse
    _is_alike: bool = field(init=False, default=True)
    # outputs that differ on samples where rounding decides
    _undecided: set[str] = field(init=False, default_factory=set)
    table: ErrorTable = field(init=False, default_factory=lambda: ErrorTable("disabled"))
    # samples on which the models are the same
    _same: list[Sample] = field(init=False, default_factory=list)
    _room: int = field(init=False, default=MOST_KEPT)  # bytes left to keep their values
    _deadline: float = field(init=False, default=inf)
    _budget: Budget = field(init=False)
    _cut_short: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._budget = self.search.budget.anew()  # all samples may have been drawn already

    def differences(self, drawn: Iterable[DrawnSample]) -> Sequence[Difference]:
        """The differences on the first given or drawn sample that shows any. Empty if none does."""
        self._deadline = monotonic() + _PATIENCE
        for sample in chain(self.given.samples(), drawn):
            if isinstance(sample, DrawnSample) and self._is_late(sample.label):
                break
            outcome, differences = self._shown_by(sample)
            if outcome == "different":
                return differences
        return self._differences_on_many()

    def _differences_on_many(self) -> Sequence[Difference]:
        """The differences on the additional samples, which are similar to one another, so they are
        compared together. Only the samples that differ most are judged.
        """
        many = [*self.search.more, *self.search.ties]
        if not many or self._is_late("many inputs"):
            return ()
        self.progress(f"{len(many)} more like {many[0].label}")
        try:
            ran = self.candidate.run_each([sample.feeds for sample in many])
        except OutOfMemory as error:
            raise too_large(self.path, error) from error
        except RunError as error:
            return [Difference("", many[0].label, f"{_FAILS}: {error}")]
        for sample, (outputs, why) in zip(many, ran, strict=True):
            if outputs is None:
                return [Difference("", sample.label, f"{_FAILS}: {why}")]
        pairs = [
            (sample.outputs, outputs or []) for sample, (outputs, _) in zip(many, ran, strict=True)
        ]
        number = len(self.search.more)
        self._budget.compared += sum(fewest_elements(sample.outputs) for sample in many[:number])
        return self._differences_on_more(pairs[:number]) or self._differences_on_ties(
            pairs[number:]
        )

    def _differences_on_more(
        self, pairs: Sequence[tuple[Outputs, Outputs]]
    ) -> Sequence[Difference]:
        more = self.search.more
        if not any(self.judge.mismatches(more[0], *values) for values in stacked(pairs)):
            return ()
        self._is_alike = False
        return self._most_different([_as_edge(sample) for sample in more], pairs)

    def _differences_on_ties(
        self, pairs: Sequence[tuple[Outputs, Outputs]]
    ) -> Sequence[Difference]:
        for values in stacked(pairs):
            differences = self._tie_differences(self.search.ties[0], *values)
            if differences and not self._are_steps(self.search.ties, pairs):
                return differences
        return ()

    def _are_steps(
        self, samples: Sequence[DrawnSample], pairs: Sequence[tuple[Outputs, Outputs]]
    ) -> bool:
        """Whether a few steps explain the differences on the first of these samples that differ."""
        differing = (
            (sample, theirs)
            for sample, (ours, theirs) in zip(samples, pairs, strict=True)
            if self.judge.mismatches(sample, ours, theirs)
        )
        return all(self.judge.are_steps(*one) for one in islice(differing, _MOST_JUDGED))

    def _most_different(
        self, samples: Sequence[DrawnSample], pairs: Sequence[tuple[Outputs, Outputs]]
    ) -> Sequence[Difference]:
        """The judge's differences on the samples with the largest errors. On a few of many samples,
        rounding takes numbers to another step, and the judge cannot tell this from a fault.
        Therefore the majority of the judged samples decides.
        """
        errors = dict[int, float]()
        for at, (sample, values) in enumerate(zip(samples, pairs, strict=True)):
            if mismatches := self.judge.mismatches(sample, *values):
                errors[at] = max(
                    inf if one.error is None else one.error for one in mismatches.values()
                )
        different = list[Sequence[Difference]]()
        worst = sorted(errors, key=lambda at: -errors[at])[:_MOST_JUDGED]
        for at in worst:
            runs = runs_so_far()
            outcome, differences = self.judge.outcome(samples[at], pairs[at][1])
            self._budget.spend(samples[at].work, runs_so_far() - runs)
            different += [differences] if outcome == "different" else []
        return different[0] if 2 * len(different) > len(worst) else ()

    def _tie_differences(
        self, sample: DrawnSample, ours: Outputs, theirs: Outputs
    ) -> list[Difference]:
        """The differences at ties, where the last bit of an input decides. Empty if only single
        elements differ.

        Rounding would excuse all of them, because moving the inputs has the same effect. But
        nothing between an input and a Quantize, Round or comparison that reads it directly may be
        rounded differently. Therefore, if the models are equal or nearly equal bit by bit on other
        inputs, they must also be equal here. Later operators may round a few numbers to the next
        step, because their inputs are rounded and may lie on a tie for any input of the model.
        Kernels may be one step off. If rounding decides an output on other inputs, the output is
        not judged.
        """
        is_at_ties = sample.style.floats == "ties"
        if not is_at_ties and sample.edge:
            return []
        mismatches = self.judge.mismatches(sample, ours, theirs)
        if not is_at_ties:
            self._is_alike &= not mismatches
        if not (is_at_ties and self._is_alike and self.is_strict):
            return []
        values = dict(zip(self.judge.names, zip(ours, theirs, strict=True), strict=True))
        return [
            Difference(
                name, sample.label, f"{mismatch.reason}, where the last bit of an input decides"
            )
            for name, mismatch in mismatches.items()
            if name not in self._undecided and share_off(*values[name]) > _FEW_OFF
        ]

    def again(self) -> Iterator[Sample]:
        """The samples on which the models are equal, with their values. While the caller uses one,
        the session of the reference is closed.
        """
        given = self.given.samples()
        for same in self._same:
            sample: Sample | None = same
            if not same.outputs:
                anew = self.search.again((same,)) if isinstance(same, DrawnSample) else given
                sample = next((other for other in anew if other.label == same.label), None)
                self.reference.close()
            if sample is not None:
                yield sample

    def within_budget(self, level: str) -> Iterator[Sample]:
        """The samples of `again`: the first one, all of the caller's, and drawn ones while the
        budget has room. Judging a sample that differs may take many runs, which are added to it.
        """
        for number, sample in enumerate(self.again()):
            if number and isinstance(sample, DrawnSample) and self._budget.is_spent:
                self._cut_short.append(f"{sample.label} at level {level} and all later samples")
                return
            runs = runs_so_far()
            yield sample
            if isinstance(sample, DrawnSample):
                # one run of each sample is counted already
                self._budget.spend_runs(sample.work, runs_so_far() - runs - 1)

    def notes(self) -> list[str]:
        """The notes on runs with equal results."""
        return [self.judge.tally.summary(self.search.left_out), *self.given.notes()]

    @property
    def budget(self) -> Budget:
        """The budget with the cost of the runs, and with everything that was left out."""
        left_out = [*self._cut_short, *self.search.budget.left_out]
        return replace(self._budget, left_out=left_out)

    def _shown_by(self, wanted: Sample) -> tuple[Outcome, Sequence[Difference]]:
        """The outcome of a sample. If it proves nothing, that of a similar sample that is drawn."""
        outcome, differences = self._compared(wanted)
        if not isinstance(wanted, DrawnSample):
            if outcome in _DECIDES_NOTHING:
                self.given.leave_out()
            if outcome == "same":
                self._keep(wanted)
            return outcome, differences
        if wanted.edge:
            return outcome, differences
        sample = wanted
        for sample in self.search.redraws(wanted) if outcome in _DECIDES_NOTHING else ():
            outcome, differences = self._compared(sample)
            if outcome not in _DECIDES_NOTHING or self._is_late(
                f"other inputs like {wanted.label}"
            ):
                break
        if outcome == "same":
            self._keep(sample)
        return outcome, differences

    def _is_late(self, what: str) -> bool:
        """Whether the budget or the time is used up, so that this sample and all later ones are
        left out.
        """
        has_run = bool(self.judge.tally.runs or self.judge.tally.left_out)
        if not has_run or not (self._budget.is_spent or monotonic() > self._deadline):
            return False
        why = "" if self._budget.is_spent else f", after {_PATIENCE:g} s of runs"
        self._cut_short.append(f"{what} and all later samples{why}")
        return True

    def _keep(self, sample: Sample) -> None:
        size = bytes_of(sample)
        self._same.append(sample if size <= self._room else replace(sample, feeds={}, outputs=[]))
        self._room -= size if size <= self._room else 0

    def _compared(self, sample: Sample) -> tuple[Outcome, Sequence[Difference]]:
        self.progress(f"run {self.judge.tally.runs + 1}: {sample.label}")
        try:
            outputs = self.candidate.run(sample.feeds)
        except OutOfMemory as error:
            raise too_large(self.path, error) from error
        except RunError as error:
            return "different", [Difference("", sample.label, f"{_FAILS}: {error}")]
        outcome, differences = self._judged(sample, outputs)
        if outcome == "same" and not sample.edge:
            self._budget.compared += fewest_elements(outputs)
        if not sample.edge or outcome == "different":
            self.table.add(self.judge.names, sample.label, sample.outputs, outputs)
        return outcome, differences

    def _judged(self, sample: Sample, outputs: Outputs) -> tuple[Outcome, Sequence[Difference]]:
        """The judgement on a sample, also at ties."""
        runs = runs_so_far()
        outcome, differences = self.judge.outcome(sample, outputs)
        if outcome in _DECIDES_NOTHING:
            self._undecided.update(self.judge.mismatches(sample, sample.outputs, outputs))
        if not isinstance(sample, DrawnSample):
            return outcome, differences
        self._budget.spend(sample.work, runs_so_far() - runs)
        if outcome != "different" and self.search.has_ties:
            at_ties = self._tie_differences(sample, sample.outputs, outputs)
            if at_ties and not self.judge.are_steps(sample, outputs):
                return "different", at_ties
        return outcome, differences


def _as_edge(sample: DrawnSample) -> DrawnSample:
    """One of many samples with few elements, marked as a sample with extreme values, because it may
    contain unusual numbers. The judge then uses the scale of the ordinary samples.
    """
    return replace(sample, edge=True, style=replace(sample.style, floats="mixed"))


def too_large(candidate: Path, error: OutOfMemory) -> FusioncError:
    """The error if the candidate does not fit into memory together with its reference."""
    return FusioncError(
        (
            "there is not enough memory to run the model next to the one with which it is compared"
            f": {error}"
        ),
        where=str(candidate),
        hint="give smaller sizes (convert takes --verify_shape, verify takes --input_shape), free "
        "some memory, or leave out the verification (--no-verify)",
    )
