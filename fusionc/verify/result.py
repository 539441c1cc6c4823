"""The results of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from fusionc.runtime.optimizers import DISABLED
from fusionc.verify.budget import Budget
from fusionc.verify.output_errors import OutputErrors

IN_PART = "verified in part: "


@dataclass(frozen=True)
class Difference:
    """One difference between the candidate and the reference."""

    subject: str  # the name of the output or input; "" for the model as a whole
    run: str  # the label of the sample; "" if no run was needed
    reason: str  # the difference and its size

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.subject, self.run) if part)
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True)
class OptimizerFault:
    """A fault of onnxruntime's optimizers: the candidate gives the right outputs with all
    optimizers off, and other outputs (or none) with the optimizers of a level.
    """

    level: str
    difference: Difference
    optimizers: tuple[str, ...]  # those that must be off so that the result is right, if known
    is_in_reference: bool  # whether the reference has another result at that level, too

    @property
    def setting(self) -> str:
        """The setting of the session options that avoids the fault."""
        if not self.optimizers:
            return "graph_optimization_level = ORT_DISABLE_ALL"
        return f'add_session_config_entry("{DISABLED}", "{";".join(self.optimizers)}")'

    @property
    def runs(self) -> bool:
        """Whether the candidate runs at the level, and gives another result."""
        return bool(self.difference.subject)

    @property
    def notice(self) -> str:
        """A short notice for a candidate that does not run."""
        whose = ", nor the model itself" if self.is_in_reference else ""
        what = f"onnxruntime cannot run the result at level {self.level}{whose}"
        return f"{what}: set SessionOptions.{self.setting}"

    def __str__(self) -> str:
        names = " and ".join(self.optimizers) or "as a whole"
        whose = (
            "what both models compute"
            if self.is_in_reference
            else "what the result computes, but not what the original computes"
        )
        return (
            f"at level {self.level} onnxruntime's own optimization, {names}, changes {whose} "
            f"({self.difference}); "
            f"to avoid it: SessionOptions.{self.setting}"
        )


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    "impossible" means that onnxruntime cannot load or run the reference itself, so that nothing
    could be compared; `summary` says why.
    """

    status: Literal["equal", "different", "impossible"]
    runs: int  # runs in which all outputs were compared
    summary: str
    differences: tuple[Difference, ...] = ()
    optimizer_faults: tuple[OptimizerFault, ...] = ()  # seen only with onnxruntime's optimizers on
    # the errors of each output at each level, on all samples except those with extreme values on
    # which the models are equal
    outputs: tuple[OutputErrors, ...] = ()
    is_loadable: bool = True  # whether onnxruntime loads the candidate
    is_refused: bool = False  # whether the reference fails for other reasons than memory and time
    unchecked_levels: tuple[str, ...] = ()  # levels at which a sample was left out or did not run
    budget: Budget | None = None  # the cost of runs and judgements; None if there were none

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain data. Numbers that are not finite are None."""
        return {
            "status": self.status,
            "in_part": self.is_in_part,
            "runs": self.runs,
            "summary": self.summary,
            "differences": [asdict(one) for one in self.differences],
            "outputs": [one.as_json() for one in self.outputs],
            "optimizer_faults": [asdict(one) for one in self.optimizer_faults],
            "unchecked_levels": list(self.unchecked_levels),
        }

    @property
    def is_in_part(self) -> bool:
        """Whether the models are equal in all comparisons, but less was compared than usual."""
        return self.status == "equal" and self.budget is not None and bool(self.budget.left_out)
