"""Reads the C headers that the C texts contain."""

from __future__ import annotations

from importlib import resources


def header(name: str) -> str:
    """The text of a header."""
    return (resources.files(__package__) / name).read_text()
