"""The outcome of one model of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

CONVERTED = "converted"
KEPT = "kept"  # --resume found a former result
DIFFERENT = "different"  # the result would differ, and was not written
FAILED = "failed"
CRASHED = "crashed"  # its process ended
STATES = (CONVERTED, KEPT, DIFFERENT, FAILED, CRASHED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a model.

    `state` is one of STATES; `error` is the error as a block of text, `log` the file with more.
    Nodes and bytes are those before and after, `effected` counts rewrites.
    """

    name: str
    model: str
    state: str
    output: str | None = None
    error: str | None = None
    log: str | None = None
    nodes: tuple[int, int] | None = None
    bytes: tuple[int, int] | None = None
    effected: int | None = None
    verification: str | None = None
    notices: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the model has a result."""
        return self.state in (CONVERTED, KEPT)


def outcome_of(content: Mapping[str, Any]) -> Outcome:
    """An outcome from JSON. Raises KeyError or TypeError if it is not one."""
    values = {field.name: content[field.name] for field in fields(Outcome)}
    pairs = {
        name: None if values[name] is None else tuple(values[name]) for name in ("nodes", "bytes")
    }
    return Outcome(**{**values, **pairs, "notices": tuple(values["notices"])})
