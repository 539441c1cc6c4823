"""What a benchmark has measured, a line for each row: an interrupted run goes on from there, if it measures alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def known(file: Path | None, measured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that were measured in this way: on this day and machine, for as long, and so on."""
    lines = file.read_text().splitlines() if file is not None and file.is_file() else []
    return (line["row"] for line in map(json.loads, lines) if line["measured"] == measured)


def keep(file: Path | None, measured: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    """Add a row, which is no failure: that is tried again."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as lines:
            lines.write(json.dumps({"measured": measured, "row": row}) + "\n")
