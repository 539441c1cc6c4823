"""The candidate on every sample on which the reference runs, both with onnxruntime's optimizers off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from time import monotonic

from fusionc.errors import FusioncError
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.judge import Judge, Outcome
from fusionc.verify.output_errors import ErrorTable
from fusionc.verify.reference import MOST_KEPT, bytes_of
from fusionc.verify.result import Difference

_PATIENCE = 60  # seconds; then one run of inputs that verification makes itself is enough
_DECIDES_NOTHING = ("unstable", "undecided")


@dataclass
class SampleRuns:
    """Runs the candidate on one sample after the other, and compares what it gives with what the reference gives.

    `judge` is the reference's; `table` has the errors of the outputs. Where the reference is unstable no difference
    counts, and no equality: such a sample is left out, and other values are drawn in place of a seed's.
    """

    path: Path
    candidate: Runner
    given: GivenSamples
    search: InputSearch
    judge: Judge
    progress: Callable[[str], None]
    table: ErrorTable = field(init=False, default_factory=lambda: ErrorTable("disabled"))
    _drawn: list[DrawnSample] = field(init=False, default_factory=list)  # that were the same
    _room: int = field(init=False, default=MOST_KEPT)  # for their values; others are computed again
    _cut_short: str = field(init=False, default="")

    def differences(self, drawn: Iterable[DrawnSample]) -> Sequence[Difference]:
        """In what the models differ on the first of the given and drawn samples that shows it; nothing if none does."""
        begin = monotonic()
        for sample in chain(self.given.samples(), drawn):
            if isinstance(sample, DrawnSample) and self.judge.runs and monotonic() - begin > _PATIENCE:
                self._cut_short = f"no more were made, as these took more than {_PATIENCE} s"
                break
            outcome, differences = self._on(sample)
            if outcome == "different":
                return differences
        return ()

    def again(self) -> Iterator[Sample]:
        """The samples on which the models were the same."""
        kept = ((sample,) if sample.outputs else self.search.again((sample,)) for sample in self._drawn)
        return chain(self.given.samples(), chain.from_iterable(kept))

    def notes(self) -> list[str]:
        """What to say of runs that were all the same."""
        notes = [self.judge.summary(self.search.left_out), *self.given.notes()]
        return [*notes, self._cut_short] if self._cut_short else notes

    def _on(self, wanted: Sample) -> tuple[Outcome, Sequence[Difference]]:
        """What a sample shows, or where it decides nothing one that is drawn like it."""
        outcome, differences = self._compared(wanted)
        if not isinstance(wanted, DrawnSample):
            if outcome in _DECIDES_NOTHING:
                self.given.leave_out()
            return outcome, differences
        if wanted.edge:
            return outcome, differences
        sample = wanted
        for sample in self.search.redraws(wanted) if outcome in _DECIDES_NOTHING else ():
            outcome, differences = self._compared(sample)
            if outcome not in _DECIDES_NOTHING:
                break
        if outcome == "same":
            self._keep(sample)
        return outcome, differences

    def _keep(self, sample: DrawnSample) -> None:
        size = bytes_of(sample)
        self._drawn.append(sample if size <= self._room else replace(sample, feeds={}, outputs=[]))
        self._room -= size if size <= self._room else 0

    def _compared(self, sample: Sample) -> tuple[Outcome, Sequence[Difference]]:
        self.progress(f"run {self.judge.runs + 1}: {sample.label}")
        try:
            outputs = self.candidate.run(sample.feeds)
        except OutOfMemory as error:
            raise too_large(self.path, error) from error
        except RunError as error:
            return "different", [Difference("", sample.label, f"the reference runs, the candidate does not: {error}")]
        outcome, differences = self.judge.outcome(sample, outputs)
        if not sample.edge or outcome == "different":
            self.table.add(self.judge.names, sample.label, sample.outputs, outputs)
        return outcome, differences


def too_large(candidate: Path, error: OutOfMemory) -> FusioncError:
    """That a model does not find the memory which the one that it is compared with has."""
    return FusioncError(
        f"there is not enough memory to run the model beside the one that it is compared with: {error}",
        where=str(candidate),
        hint="give smaller sizes, to convert with --verify_shape, to verify with --input_shape; free some memory, or "
        "leave the verification out: --no-verify",
    )
