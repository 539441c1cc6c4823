"""The result of a tuning, as an object and as plain data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from fusionc.report import Report
from fusionc.tune.configuration import Configuration
from fusionc.tune.confirmation import Confirmation
from fusionc.tune.decisions import Worth


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning."""

    label: str  # a description of the inputs that were used
    worths: Sequence[Worth]  # the measurements of all changes
    confirmation: Confirmation
    configuration: Configuration  # the configuration that was delivered
    report: Report  # the report of the conversion to this configuration
    switches: Path  # the switch file
    settings: Path | None  # the session file; None if the settings are onnxruntime's defaults
    plot: Path
    changes: Collection[str]  # the names of the changes that were confirmed and delivered
    # the arguments of a command that makes the same model, but without its session settings
    again: Sequence[str]
    seconds: float  # the time spent on measuring
    confidence: float
    notices: Sequence[str]

    def added_seconds(self, worth: Worth) -> float:
        """The seconds that a measured change adds to a run. They are negative if it saves time."""
        base = self.confirmation.seconds["default"]
        kernels = next(
            (one for one in self.worths if one.change.kernels and one.state == "pays"), worth
        )
        if kernels is not worth:  # all other changes were measured with kernels on
            base *= exp(fmean(kernels.logarithms))
        return base * (exp(fmean(worth.logarithms)) - 1)

    def is_delivered(self, worth: Worth) -> bool:
        """Whether a change was confirmed, and is part of the written model."""
        return worth.change.name in self.changes

    def as_json(self) -> dict[str, Any]:
        """The result as plain data: ratios, seconds, names."""
        last = self.confirmation
        compared = {"default / original": self.confirmation.default}
        if last.against_default is not None:
            compared |= {
                "tuned / original": last.against_original,
                "tuned / default": last.against_default,
            }
        return {
            "inputs": self.label,
            "changes": [self._change(worth) for worth in self.worths],
            "last_run": {
                "seconds": last.seconds,
                **{name: one.as_json() for name, one in compared.items()},
            },
            "delivered": last.delivered,
            "switches": str(self.switches),
            "again": list(self.again),
            "session": None if self.settings is None else str(self.settings),
            "settings": self.configuration.settings.as_json(),
            "areas_off": sorted(self.configuration.areas_off),
            "kernels": self.configuration.kernels,
            "output": str(self.report.output),
            "plot": str(self.plot),
            "seconds": self.seconds,
            "confidence": self.confidence,
            "notices": list(self.notices),
        }

    def _change(self, worth: Worth) -> dict[str, Any]:
        interval = worth.interval(self.confidence)
        plain = {
            "change": worth.change.name,
            "state": worth.state,
            "delivered": self.is_delivered(worth),
        }
        plain |= {"why": worth.why} if worth.why else {}
        return (
            plain
            if interval is None
            else {**plain, **interval.as_json(), "seconds": self.added_seconds(worth)}
        )
