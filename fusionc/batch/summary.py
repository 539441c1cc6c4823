"""The summary of all outcomes: a table on the terminal, and a JSON file next to the records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from fusionc.batch.outcome import DIFFERENT, STATES, UNVERIFIED, Outcome
from fusionc.disk.places import cannot_be_written
from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError, UnverifiedError, VerificationError
from fusionc.report.table import show_facts, show_table
from fusionc.version import __version__

_HEADERS = (
    "model",
    "state",
    ">nodes",
    ">after",
    ">effected",
    ">s",
    "verification, or what is wrong",
)

_MAX_NAMES = 3  # the largest number of models that a message names


@dataclass(frozen=True)
class Summary:
    """The outcomes of a run, sorted by name; notices that concern all models; and the time in
    seconds.
    """

    outcomes: Sequence[Outcome]
    notices: list[str]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            "seconds": self.seconds,
            "counts": self.counts(),
            "notices": list(self.notices),
            "models": list(map(asdict, self.outcomes)),
        }

    def counts(self) -> dict[str, int]:
        """The number of models in each state. States without models are left out."""
        counts = Counter(outcome.state for outcome in self.outcomes)
        return {state: counts[state] for state in STATES if counts[state]}

    def fault(self, file: Path) -> FusioncError | None:
        """The error that ends the command if some models have no result. `None` if all have one.
        `file` is the file of the summary.
        """
        wrong = [outcome for outcome in self.outcomes if not outcome.is_right]
        if not wrong:
            return None
        states = {outcome.state for outcome in wrong}
        kind = FusioncError
        if DIFFERENT in states:
            kind = VerificationError
        elif states == {UNVERIFIED}:
            kind = UnverifiedError
        what = f"{len(wrong)} of {len(self.outcomes)} models were not converted"
        hint = (
            "the table gives the reasons; earlier results of these models are unchanged; to "
            "convert only these models, repeat the command with --resume"
        )
        return kind(what, where=str(file), hint=hint)

    @property
    def unverified(self) -> str:
        """The results that were written although they could not be verified, in words. "" if there
        are none.
        """
        names = [o.name for o in self.outcomes if o.state == UNVERIFIED and o.is_right]
        more = f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
        named = f"{', '.join(names[:_MAX_NAMES])}{more}"
        return f"{len(names)} of {len(self.outcomes)} models: {named}" if names else ""


def summary_file(records: Path) -> Path:
    """The path of the summary's file."""
    return records / "summary.json"


def write_summary(summary: Summary, records: Path) -> None:
    """Write the summary as JSON. Raises FusioncError if it cannot be written."""
    content = {"fusionc": __version__, **summary.as_json()}
    try:
        replace_text(summary_file(records), json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise cannot_be_written(error, records) from error


def show_summary(summary: Summary, records: Path, stream: TextIO) -> None:
    """Show a line for each model, and then the totals."""
    show_table(_HEADERS, list(map(_row, summary.outcomes)), stream)
    noted = sum(bool(outcome.notices) for outcome in summary.outcomes)
    counts = ", ".join(f"{count} {state}" for state, count in summary.counts().items())
    facts = [
        ("models", f"{len(summary.outcomes)}: {counts}"),
        *(("notice", notice) for notice in summary.notices),
        *([("notices", f"on {noted} of the models, in the summary")] if noted else []),
        ("summary", str(summary_file(records))),
        ("time", f"{summary.seconds:.2f} s"),
    ]
    print(file=stream)
    show_facts(facts, stream)


def _row(outcome: Outcome) -> list[str]:
    before, after = ("", "") if outcome.nodes is None else map(str, outcome.nodes)
    effected = "" if outcome.effected is None else str(outcome.effected)
    text = outcome.error or outcome.verification or "not verified"
    return [
        outcome.name,
        outcome.state,
        before,
        after,
        effected,
        f"{outcome.seconds:.2f}",
        text.splitlines()[0],
    ]
