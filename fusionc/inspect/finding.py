"""One finding in a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One finding: something that costs time or memory, and what to do about it."""

    topic: str  # the same for all findings of a kind
    text: str
    to_do: str
    places: tuple[str, ...]  # names of constants, nodes or inputs


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 node, 2 nodes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
