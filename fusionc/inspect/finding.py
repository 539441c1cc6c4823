"""One thing that was found in a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`topic` is what it is about, the same for all of a kind; `places` are the names of constants,
    nodes or inputs.
    """

    topic: str
    text: str
    to_do: str
    places: tuple[str, ...]


def counted(number: int, noun: str) -> str:
    """So many of something: 1 node, 2 nodes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
