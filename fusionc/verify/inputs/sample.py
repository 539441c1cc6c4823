"""Inputs on which the reference runs, given by the caller or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Inputs on which the reference (the original model) runs, and its outputs.

    `edge` marks inputs that only test extreme values. Such a sample may be left out if the
    reference is unstable on it.
    """

    label: str
    feeds: dict[str, Any]
    outputs: list[Any]
    edge: bool = False
