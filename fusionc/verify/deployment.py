"""Check the candidate (the optimized model) as it will be deployed: with onnxruntime's optimizers
on. These optimizers may have faults of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fusionc.runtime.run_errors import OutOfMemory, Overdue, RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.compare import largest_difference
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile
from fusionc.verify.noise import ABOUT, is_within
from fusionc.verify.optimizer_search import optimizers_at_fault
from fusionc.verify.output_errors import ErrorTable
from fusionc.verify.result import Difference, OptimizerFault

_CLEARLY = 4  # if an optimizer causes an error, the error is this many times smaller without it
_SESSIONS = 3  # a difference must be the same in this many sessions
_Outputs = list[Any] | str


@dataclass
class Deployment:
    """Runs the candidate at one level of onnxruntime's optimizers, and compares it with the
    reference (the original model) without optimizers.

    `judge` compares outputs with those of the reference. The optimizers `off` never run on the
    candidate. `notes` say what was left out and why; `table` has the errors of the outputs.
    """

    level: str
    reference: ModelFile
    candidate: ModelFile
    judge: Judge
    progress: Callable[[str], None]
    off: Sequence[str] = ()
    notes: list[str] = field(init=False, default_factory=list)
    table: ErrorTable = field(init=False)
    _open: tuple[tuple[object, ...], Runner] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.judge = self.judge.another(self.level)
        self.table = ErrorTable(self.level)

    def fault(self, samples: Iterable[Sample]) -> OptimizerFault | None:
        """The difference at this level, and the optimizers that cause it. None if the models agree.

        The caller has found the models equal on these samples with all optimizers off.
        """
        fault: OptimizerFault | None = None
        try:
            for sample in samples:
                self.progress(f"at level {self.level}: {sample.label}")
                outputs = self._outputs(self.candidate, fault.optimizers if fault else (), sample)
                difference = self._difference(sample, outputs)
                if fault is None and not isinstance(outputs, str):
                    self.table.add(self.judge.names, sample.label, sample.outputs, outputs)
                if difference is not None:
                    fault = self._explained(difference, sample, outputs, fault)
                    if fault is not None and not fault.optimizers:
                        break
        except (OutOfMemory, Overdue) as error:
            self.notes.append(f"not run at level {self.level}: {error}")
        finally:
            self._close()
        return fault

    def exceptions(self) -> list[str]:
        """The excuses for samples without a fault."""
        return [
            f"at level {self.level}, {exception}" for exception in self.judge.tally.exceptions()
        ]

    def _explained(
        self,
        difference: Difference,
        sample: Sample,
        outputs: _Outputs,
        known: OptimizerFault | None,
    ) -> OptimizerFault | None:
        """The `known` fault, updated if the difference in `outputs` shows a fault. The fault also
        counts as one in the reference if the reference, at this level, has errors of similar size
        in the same outputs.
        """
        errors = self._errors(sample, outputs)
        if known is None and self._is_unsteady(sample, outputs):
            self.notes.append(
                f"{sample.label} left out at level {self.level}, where onnxruntime's answer "
                "differs each time"
            )
            return None
        if known is None or known.is_in_reference:
            own = self._own_errors(sample, errors, known)
            if own is None:
                return known
            if known is None or own:
                known = OptimizerFault(self.level, difference, (), is_in_reference=not own)

        def is_right(disabled: Sequence[str]) -> bool:
            self.progress(
                f"at level {self.level}: looking for the optimizer at fault, "
                f"{len(disabled)} are off"
            )
            remaining = self._errors(sample, self._outputs(self.candidate, disabled, sample))
            return all(
                error * _CLEARLY < errors.get(name, 0.0) for name, error in remaining.items()
            )

        return replace(known, optimizers=optimizers_at_fault(is_right, known.optimizers))

    def _own_errors(
        self, sample: Sample, errors: Mapping[str, float], known: OptimizerFault | None
    ) -> Mapping[str, float] | None:
        """The errors of the candidate that the reference at this level does not have. None if all
        errors of the candidate are rounding, and the reference has none.
        """
        reference = self._outputs(self.reference, known.optimizers if known else (), sample)
        theirs = self._errors(sample, reference)  # if it does not run, all outputs count as wrong
        own = {
            name: error
            for name, error in errors.items()
            if "" not in theirs and error > ABOUT * theirs.get(name, 0.0)
        }
        is_bounded = self.judge.bounds_of(sample) is not None
        if own and not is_bounded and self._is_rounding(sample, own, reference):
            return {} if theirs else None
        return own

    def _is_unsteady(self, sample: Sample, outputs: _Outputs) -> bool:
        """Whether the candidate gives other results in another session. For example, onnxruntime's
        optimized operator for an empty sum returns old contents of memory.
        """
        if isinstance(outputs, str):
            return False
        for _ in range(_SESSIONS):
            self._close()
            again = self._outputs(self.candidate, (), sample)
            if not isinstance(again, str) and self.judge.mismatches(sample, outputs, again):
                return True
        return False

    def _is_rounding(
        self, sample: Sample, errors: Mapping[str, float], reference: _Outputs
    ) -> bool:
        """Whether optimization changes the reference about as much as the candidate, and the change
        is within what is accepted.
        """
        if "" in errors or isinstance(reference, str):
            return False
        moved = map(largest_difference, sample.outputs, reference)
        return is_within(errors, dict(zip(self.judge.names, moved, strict=True)), ABOUT)

    def _outputs(self, model: ModelFile, disabled: Sequence[str], sample: Sample) -> _Outputs:
        """The outputs of a model at this level, or the reason if the optimizers prevent the model
        from running.
        """
        try:
            return self._runner(model, disabled).run(sample.feeds)
        except (OutOfMemory, Overdue):
            raise
        except RunError as error:
            return f"onnxruntime cannot run the model: {error}"

    def _difference(self, sample: Sample, outputs: _Outputs) -> Difference | None:
        if isinstance(outputs, str):
            return Difference("", sample.label, outputs)
        judge = self.judge.another(self.level)
        outcome, differences = judge.outcome(sample, outputs)
        self.judge.tally.include(judge.tally)
        return differences[0] if outcome == "different" else None

    def _errors(self, sample: Sample, outputs: _Outputs) -> dict[str, float]:
        """The error of each output that differs; infinity if the difference is not a number."""
        if isinstance(outputs, str):
            return {"": np.inf}
        errors = self.judge.mismatches(sample, sample.outputs, outputs)
        return {
            name: np.inf if mismatch.error is None else mismatch.error
            for name, mismatch in errors.items()
        }

    def _runner(self, model: ModelFile, disabled: Sequence[str]) -> Runner:
        """A runner at this level. Only the last runner stays open."""
        is_candidate = model is self.candidate
        names = tuple(dict.fromkeys([*(self.off if is_candidate else ()), *disabled]))
        wanted = (is_candidate, *names)
        if self._open is None or self._open[0] != wanted:
            self._close()
            self._open = wanted, model.runner(self.level, names)
        return self._open[1]

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
        self._open = None
