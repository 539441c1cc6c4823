"""The result of a conversion as an object: what the Python API returns and what the terminal
shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusionc.rewrite.log import PatternCount
    from fusionc.verify.budget import Budget
    from fusionc.verify.output_errors import OutputErrors


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
        """How often a pattern was found, whatever became of it."""
        return self.effected + sum(self.refused.values())


@dataclass
class Report:
    """What a conversion did."""

    model: Path | None = None  # None if it is in memory, as for `output`
    output: Path | None = None
    kernels: Path | None = None  # the library of the result, if it has one
    page: Path | None = None  # for people, if one was asked for
    ready: Path | None = None  # the session file of the ready form, if there is one
    patterns: list[PatternCount] = field(default_factory=list)  # in execution order
    operators_before: dict[str, int] = field(default_factory=dict)  # nodes by operator
    operators_after: dict[str, int] = field(default_factory=dict)
    bytes_before: int = 0  # of the model and its weights on disk
    bytes_after: int = 0
    verification: str | None = None  # one sentence; None if it was skipped
    outputs: Sequence[OutputErrors] = ()  # how far each output was off
    budget: Budget | None = None  # what the verification cost
    notices: list[str] = field(default_factory=list)
    left_out: int = 0  # rewrites that were taken back, so that the result is right
    log_file: Path | None = None
    pattern_lines: list[str] = field(default_factory=list)  # of the log, if not on stdout already
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)  # the seconds of each

    def __str__(self) -> str:
        """The report in short: what took effect, and what came of it."""
        effective = [f"{total.name} {total.effected}" for total in self.passes() if total.effected]
        lines = [
            f"passes        {', '.join(effective) or 'none took effect'}",
            f"nodes         {self.nodes_before} -> {self.nodes_after}",
            f"verification  {self.verification or 'skipped'}",
            *(f"notice        {notice}" for notice in self.notices),
        ]
        return "\n".join(lines)

    @property
    def effected(self) -> int:
        """How many rewrites took effect."""
        return sum(count.effected for count in self.patterns)

    @property
    def nodes_before(self) -> int:
        """How many nodes the model has, those in subgraphs and functions too."""
        return sum(self.operators_before.values())

    @property
    def nodes_after(self) -> int:
        """How many nodes the result has; an area counts as one."""
        return sum(self.operators_after.values())

    def passes(self) -> list[PassTotal]:
        """The passes that counted anything, in execution order."""
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
