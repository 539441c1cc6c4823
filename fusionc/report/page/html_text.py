"""Escape text from models and users for HTML."""

from __future__ import annotations

from html import escape

from fusionc.errors import printable


def html_text(text: object) -> str:
    """The text with all markup escaped. It is safe in HTML text and in attributes."""
    return escape(printable(str(text)))
