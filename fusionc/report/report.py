"""The report of a conversion: an object that the Python API returns and that the terminal shows.
In a report, an area (a group of operators with one generated kernel) counts as one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusionc.errors import printable

if TYPE_CHECKING:
    from fusionc.report.run_cost import RunCost
    from fusionc.rewrite.log import PatternCount
    from fusionc.verify.budget import Budget
    from fusionc.verify.output_errors import OutputErrors

# how `Report.verification` begins if nothing could be verified
NOT_VERIFIED = "not verified: "


@dataclass
class PassTotal:
    """The counts of one pass, summed over its patterns and all graphs."""

    kind: str
    name: str
    effected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def matched(self) -> int:
        """How often a pattern matched, including refused matches."""
        return self.effected + sum(self.refused.values())

    def as_json(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {"matched": self.matched, **asdict(self)}


@dataclass(frozen=True)
class KernelGain:
    """What generated kernels would gain. These are estimates."""

    operators: int  # those that kernels would compute
    of_operators: int  # all operators of the result
    has_products: bool  # whether kernels would compute convolutions or matrix products
    before: float  # seconds that these operators take in a run, on one thread
    after: float  # seconds that their kernels would take

    @property
    def percent(self) -> int:
        """The saved share of the time of these operators."""
        return round(100 * (1 - self.after / self.before)) if self.operators else 0


@dataclass
class Report:
    """The report of a conversion."""

    model: Path | None = None  # None if the model is in memory
    output: Path | None = None  # None if the result is in memory
    kernels: Path | None = None  # the library with the kernels of the result, if it has any
    # whether kernels may make the result faster, and the options do not say that they are unwanted
    may_get_kernels: bool = False
    kernel_gain: KernelGain | None = None  # what kernels would gain, if it was estimated
    page: Path | None = None  # the page that --report wrote, if it was requested
    ready: Path | None = None  # the session file of the ready form, if it was requested
    patterns: list[PatternCount] = field(default_factory=list)  # in execution order
    operators_before: dict[str, int] = field(default_factory=dict)  # the number of nodes
    operators_after: dict[str, int] = field(default_factory=dict)
    # operators of onnxruntime that are not in the model but in the result: com.microsoft.Gelu
    runtime_operators: list[str] = field(default_factory=list)
    areas: dict[str, str] = field(default_factory=dict)  # the label of each area by its name
    cost: RunCost | None = None  # of a run of the model; None if no pass is on
    bytes_before: int = 0  # of the model and its weights on disk
    bytes_after: int = 0
    verification: str | None = None  # one sentence; None if the verification was skipped
    outputs: Sequence[OutputErrors] = ()  # the numerical differences of each output
    budget: Budget | None = None  # the cost of the verification
    notices: list[str] = field(default_factory=list)
    left_out: int = 0  # rewrites that were left out because the result was wrong with them
    # the nodes that stay in float32 because they would lose too much in a lower precision; they are
    # named as --keep_dtype names them
    in_float32: list[str] = field(default_factory=list)
    log_file: Path | None = None
    counts: Path | None = None  # fusion_result.json, if it was written
    # the lines of the log about patterns, unless the log already goes to stdout
    pattern_lines: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)  # the seconds of each stage

    def __str__(self) -> str:
        """A short form of the report: effective passes, nodes, verification and notices."""
        effective = [f"{total.name} {total.effected}" for total in self.passes() if total.effected]
        lines = [
            f"passes        {', '.join(effective) or 'none took effect'}",
            f"nodes         {self.nodes_before} -> {self.nodes_after}",
            f"verification  {self.verification or 'skipped'}",
            *(f"notice        {notice}" for notice in self.notices),
        ]
        return "\n".join(map(printable, lines))

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        files = {
            "model": self.model,
            "output": self.output,
            "kernels": self.kernels,
            "ready": self.ready,
            "report": self.page,
            "log": self.log_file,
            "counts": self.counts,
        }
        return {
            **{name: None if file is None else str(file) for name, file in files.items()},
            "nodes": [self.nodes_before, self.nodes_after],
            "operators": [self.operators_before, self.operators_after],
            "areas": self.areas,
            "bytes": [self.bytes_before, self.bytes_after],
            "cost": None if self.cost is None else asdict(self.cost),
            "passes": [total.as_json() for total in self.passes() if total.matched],
            "verification": self.verification,
            "unverified": self.unverified or None,
            "outputs": [one.as_json() for one in self.outputs],
            "left_out": self.left_out,
            "in_float32": self.in_float32,
            "notices": self.notices,
            "seconds": self.seconds,
            "stages": self.stages,
        }

    @property
    def unverified(self) -> str:
        """Why nothing of the result could be verified. Empty if something was verified, or if the
        verification was skipped.
        """
        text = self.verification or ""
        return text.removeprefix(NOT_VERIFIED) if text.startswith(NOT_VERIFIED) else ""

    @property
    def effected(self) -> int:
        """The number of rewrites that took effect."""
        return sum(count.effected for count in self.patterns)

    @property
    def nodes_before(self) -> int:
        """The number of nodes of the model, including nodes in subgraphs and functions."""
        return sum(self.operators_before.values())

    @property
    def nodes_after(self) -> int:
        """The number of nodes of the result. An area counts as one node."""
        return sum(self.operators_after.values())

    def passes(self) -> list[PassTotal]:
        """The totals of all passes that ran, in execution order."""
        return totals(self.patterns)


def totals(counts: list[PatternCount]) -> list[PassTotal]:
    """Sum the counts of patterns by pass, in the order in which the passes first appear."""
    by_name: dict[str, PassTotal] = {}
    for count in counts:
        total = by_name.setdefault(count.pass_name, PassTotal(count.kind, count.pass_name))
        total.effected += count.effected
        total.seconds += count.seconds
        for reason, times in count.refused.items():
            total.refused[reason] = total.refused.get(reason, 0) + times
    return list(by_name.values())
