"""The candidate as it will be deployed: with onnxruntime's own optimizers on, which may have faults of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fusionc.runtime.run_errors import OutOfMemory, Overdue, RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile
from fusionc.verify.optimizer_search import optimizers_at_fault
from fusionc.verify.result import Difference, OptimizerFault


@dataclass
class Deployment:
    """Runs the candidate at one level, beside what the reference gives with all optimizers off.

    `judge` is one for candidates of the reference. `skipped` says why the level was left out, where it was.
    """

    level: str
    reference: ModelFile
    candidate: ModelFile
    judge: Judge
    progress: Callable[[str], None]
    skipped: str = ""
    _open: tuple[tuple[object, ...], Runner] | None = field(default=None, init=False)

    def fault(self, samples: Iterable[Sample]) -> OptimizerFault | None:
        """What differs at this level, and which optimizers do that.

        The samples are those on which the two models are the same with all optimizers off.
        """
        found: OptimizerFault | None = None
        try:
            for sample in samples:
                self.progress(f"at level {self.level}: {sample.label}")
                difference = self._difference(self.candidate, found.optimizers if found else (), sample)
                if difference is not None:
                    found = self._explained(difference, sample, found)
                    if not found.optimizers:
                        break
        except (OutOfMemory, Overdue) as error:
            self.skipped = f"not run at level {self.level}: {error}"
        finally:
            self._close()
        return found

    def _explained(self, difference: Difference, sample: Sample, known: OptimizerFault | None) -> OptimizerFault:
        def is_right(disabled: Sequence[str]) -> bool:
            self.progress(f"at level {self.level}: looking for the optimizer at fault, {len(disabled)} are off")
            return self._difference(self.candidate, disabled, sample) is None

        if known is not None:
            return replace(known, optimizers=optimizers_at_fault(is_right, known.optimizers))
        is_in_reference = self._difference(self.reference, (), sample) is not None
        return OptimizerFault(self.level, difference, optimizers_at_fault(is_right), is_in_reference)

    def _difference(self, model: ModelFile, disabled: Sequence[str], sample: Sample) -> Difference | None:
        try:
            found = self._runner(model, disabled).run(sample.feeds)
        except (OutOfMemory, Overdue):
            raise
        except RunError as error:
            return Difference("", sample.label, f"onnxruntime cannot run the model: {error}")
        outcome, differences = self.judge.another().outcome(sample, found)
        return differences[0] if outcome == "different" else None

    def _runner(self, model: ModelFile, disabled: Sequence[str]) -> Runner:
        """There is one at a time, and the last one is kept."""
        wanted = (model.path, *disabled)
        if self._open is None or self._open[0] != wanted:
            self._close()
            self._open = wanted, model.runner(self.level, disabled)
        return self._open[1]

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
        self._open = None
