"""What a verification found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Difference:
    """One way in which the candidate does not compute what the reference computes.

    `subject` is the output or input concerned, or "" for the model as a whole; `run` describes the inputs, or is ""
    where no run was needed to see it; `reason` says what differs and by how much.
    """

    subject: str
    run: str
    reason: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.subject, self.run) if part)
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    `runs` counts the runs in which all outputs were compared. "impossible" means that onnxruntime cannot load or run
    the reference itself, so that nothing could be compared; `summary` says why. `is_loadable` tells whether onnxruntime
    loads the candidate, `is_refused` whether it cannot run the reference for other reasons than memory and time.
    """

    status: Literal["equal", "different", "impossible"]
    runs: int
    summary: str
    differences: tuple[Difference, ...] = ()
    is_loadable: bool = True
    is_refused: bool = False
