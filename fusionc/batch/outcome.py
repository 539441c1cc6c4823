"""The outcome of one model of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

CONVERTED = "converted"
UNVERIFIED = "unverified"  # no part of the result could be verified
KEPT = "kept"  # --resume kept the result of an earlier run
DIFFERENT = "different"  # the result would differ from the model, and was not written
FAILED = "failed"
CRASHED = "crashed"  # the converting process ended
STATES = (CONVERTED, UNVERIFIED, KEPT, DIFFERENT, FAILED, CRASHED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a model, as plain data."""

    name: str  # the path of the result in the output folder
    model: str  # the path of the model
    state: str  # one of STATES
    output: str | None = None  # the path of the result
    error: str | None = None  # the whole text of the error, in several lines
    log: str | None = None  # the path of the log
    nodes: tuple[int, int] | None = None  # before and after
    bytes: tuple[int, int] | None = None  # before and after
    effected: int | None = None  # the number of rewrites
    verification: str | None = None  # what was verified, in a sentence
    notices: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the model has a result. An unverified result has an error if
        --require_verification is given; then it was not written.
        """
        return self.state in (CONVERTED, KEPT) or (self.state == UNVERIFIED and not self.error)


def outcome_of(content: Mapping[str, Any]) -> Outcome:
    """An outcome from plain data. Raises KeyError or TypeError if the data is not an outcome."""
    values = {field.name: content[field.name] for field in fields(Outcome)}
    pairs = {
        name: None if values[name] is None else tuple(values[name]) for name in ("nodes", "bytes")
    }
    return Outcome(**{**values, **pairs, "notices": tuple(values["notices"])})
