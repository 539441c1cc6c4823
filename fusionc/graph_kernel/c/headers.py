"""Reads the C headers that are copied into the C texts."""

from __future__ import annotations

from importlib import resources


def header(name: str) -> str:
    """The text of a header."""
    return (resources.files(__package__) / name).read_text()
