"""Measured tables in pages that are written by hand: between two comments of a name."""

from __future__ import annotations

import re
from pathlib import Path


def put_table(page: Path, name: str, table: str) -> None:
    """Replace what a page has between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    begin = f"<!-- {name} -->"
    end = f"<!-- end of {name} -->"
    place = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    text, count = place.subn(lambda _: f"{begin}\n\n{table}\n\n{end}", page.read_text())
    if count != 1:
        raise ValueError(f"{page} has {count} places for {name}, not one")
    page.write_text(text)
