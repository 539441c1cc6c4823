"""Text of others as text of a page."""

from __future__ import annotations

from html import escape

from fusionc.errors import printable


def html_text(text: object) -> str:
    """The text with nothing left that a browser takes for anything but letters, in attributes,
    too.
    """
    return escape(printable(str(text)))
