"""The journal of a benchmark, with a line for each row. An interrupted run continues from there if
it measures in the same way.
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
    """The rows that were measured in this way: with this code, on this day and machine, for the
    same time, and so on.
    """
    wanted = {**measured, "code": _code()}
    for text in file.read_text().splitlines() if file is not None and file.is_file() else []:
        with suppress(ValueError):  # the last line is incomplete if a run was interrupted
            line = json.loads(text)
            if line["measured"] == wanted:
                yield line["row"]


def keep(file: Path | None, measured: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    """Add a row. Failures are not added, because they are tried again."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        is_whole = not file.is_file() or file.read_bytes()[-1:] in (b"", b"\n")
        with file.open("a") as lines:
            line = json.dumps({"measured": {**measured, "code": _code()}, "row": row})
            lines.write(f"{line}\n" if is_whole else f"\n{line}\n")


@cache
def _code() -> str:
    """A hash of everything that is measured: the sources of fusionc and of the benchmarks."""
    files = sorted(file for file in _CODE.rglob("*") if file.suffix in (".py", ".h", ".c"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
