"""What a benchmark has measured, a line for each row: an interrupted run goes on from there, if it
measures alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_CODE = Path(__file__).parents[1] / "fusionc"


def known(file: Path | None, measured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that were measured in this way: of this code, on this day and machine, for as long,
    and so on.
    """
    wanted = {**measured, "code": _code()}
    for text in file.read_text().splitlines() if file is not None and file.is_file() else []:
        with suppress(ValueError):  # of a line that was being written when a run ended
            line = json.loads(text)
            if line["measured"] == wanted:
                yield line["row"]


def keep(file: Path | None, measured: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    """Add a row, which is no failure: that is tried again."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        is_whole = not file.is_file() or file.read_bytes()[-1:] in (b"", b"\n")
        with file.open("a") as lines:
            line = json.dumps({"measured": {**measured, "code": _code()}, "row": row})
            lines.write(f"{line}\n" if is_whole else f"\n{line}\n")


@cache
def _code() -> str:
    """A hash of what is measured: the sources of fusionc beside the benchmarks."""
    files = sorted(file for file in _CODE.rglob("*") if file.suffix in (".py", ".h", ".c"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
