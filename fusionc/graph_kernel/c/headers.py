"""The headers that C texts are made of."""

from __future__ import annotations

from importlib import resources


def header(name: str) -> str:
    """The text of one of them."""
    return (resources.files(__package__) / name).read_text()
