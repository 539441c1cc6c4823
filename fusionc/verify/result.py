"""What a verification found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusionc.runtime.optimizers import DISABLED
from fusionc.verify.budget import Budget
from fusionc.verify.output_errors import OutputErrors

IN_PART = "verified in part: "


@dataclass(frozen=True)
class Difference:
    """One way in which the candidate does not compute what the reference computes.

    `subject` is the output or input concerned, or "" for the model as a whole; `run` describes the
    inputs, or is "" where no run was needed to see it; `reason` says what differs and by how much.
    """

    subject: str
    run: str
    reason: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.subject, self.run) if part)
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True)
class OptimizerFault:
    """What onnxruntime's own optimizers make of the candidate at a level: another result than with
    all of them off.

    `optimizers` have to be off so that the result is right; there are none where that is not known.
    `is_in_reference` says that the reference has another result at that level, too.
    """

    level: str
    difference: Difference
    optimizers: tuple[str, ...]
    is_in_reference: bool

    @property
    def setting(self) -> str:
        """The call of the session options that avoids it."""
        if not self.optimizers:
            return "graph_optimization_level = ORT_DISABLE_ALL"
        return f'add_session_config_entry("{DISABLED}", "{";".join(self.optimizers)}")'

    @property
    def runs(self) -> bool:
        """Whether the candidate runs at the level, and gives something else."""
        return bool(self.difference.subject)

    @property
    def notice(self) -> str:
        """What to mind where it does not run, in short."""
        whose = ", nor the model itself" if self.is_in_reference else ""
        return f"onnxruntime cannot run the result at level {self.level}{whose}: set SessionOptions.{self.setting}"

    def __str__(self) -> str:
        names = " and ".join(self.optimizers) or "as a whole"
        whose = (
            "what both models compute"
            if self.is_in_reference
            else "what the model computes, not the reference"
        )
        return (
            f"at level {self.level} onnxruntime's own optimization, {names}, changes {whose} "
            f"({self.difference}); "
            f"to avoid it: SessionOptions.{self.setting}"
        )


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    `runs` counts the runs in which all outputs were compared. "impossible" means that onnxruntime
    cannot load or run the reference itself, so that nothing could be compared; `summary` says why.
    `is_loadable` tells whether onnxruntime loads the candidate, `is_refused` whether it cannot run
    the reference for other reasons than memory and time. `optimizer_faults` are what differs only
    where onnxruntime's own optimizers are on; `outputs` say how far each output was off, at each
    level, on all samples but those at the edges that were equal. At `unchecked_levels` a sample was
    left out, or could not be run. `budget` has what runs and their judgement have cost, None where
    there were none; what was left out for that says that the models are verified in part.
    """

    status: Literal["equal", "different", "impossible"]
    runs: int
    summary: str
    differences: tuple[Difference, ...] = ()
    optimizer_faults: tuple[OptimizerFault, ...] = ()
    outputs: tuple[OutputErrors, ...] = ()
    is_loadable: bool = True
    is_refused: bool = False
    unchecked_levels: tuple[str, ...] = ()
    budget: Budget | None = None

    @property
    def is_in_part(self) -> bool:
        """Whether the models are equal as far as they were compared, which is less than what is
        usual.
        """
        return self.status == "equal" and self.budget is not None and bool(self.budget.left_out)
