"""Text that others wrote, as text of a page."""

from __future__ import annotations

from html import escape

from fusionc.errors import printable


def html_text(text: object) -> str:
    """The text with everything escaped that a browser could take for markup, also in attributes."""
    return escape(printable(str(text)))
