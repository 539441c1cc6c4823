"""The headers that C texts consist of."""

from __future__ import annotations

from importlib import resources


def header(name: str) -> str:
    """The text of a header."""
    return (resources.files(__package__) / name).read_text()
